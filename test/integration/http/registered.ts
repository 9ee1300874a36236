import type { FastifyInstance } from "fastify";

/**
 * What Fastify has registered, as `METHOD /path/{name}`, without the HEAD that comes with each GET.
 */
export async function registered(http: FastifyInstance): Promise<string[]> {
  await http.ready();
  const found: string[] = [];
  const above: string[] = [];
  // ├── /v1/events (GET, HEAD)
  // │   └── /:id (GET, HEAD)
  for (const line of http.printRoutes({ commonPrefix: false }).split("\n")) {
    const [, indent = "", path = "", methods] =
      /^([│ ]*)[├└]── (\S+)(?: \((.+)\))?$/.exec(line) ?? [];
    if (path === "") continue;
    above.length = indent.length / 4;
    above.push(path);
    for (const method of methods?.split(", ") ?? []) {
      if (method !== "HEAD")
        found.push(
          `${method} ${above
            .join("")
            .replace(/:(\w+)/g, "{$1}")
            .replace(/(?<!\/)\*$/, "/*")
            .replace(/(?<=.)\/$/, "")}`,
        );
    }
  }
  return [...new Set(found)];
}
