import type { FastifyInstance } from "fastify";
import type { Endpoint } from "../../src/control/endpoint.ts";
import { createHttp } from "../../src/control/http.ts";
import { addControlRoutes } from "../../src/control/routes.ts";

/** The control API without a relay: its ports are empty, so no request can reach them. */
export async function controlApi(): Promise<{ http: FastifyInstance; endpoints: Endpoint[] }> {
  const found = new Set<Endpoint>();
  const http = createHttp(null, () => {});
  http.addHook("onRoute", ({ config }) => {
    if (config?.endpoint !== undefined) found.add(config.endpoint);
  });
  addControlRoutes(http, { listening: { version: "" } } as unknown as Parameters<typeof addControlRoutes>[1]);
  // Some routes are in a scope of their own, which is added later.
  await http.ready();
  return { http, endpoints: [...found] };
}

export async function allEndpoints(): Promise<Endpoint[]> {
  return (await controlApi()).endpoints;
}
