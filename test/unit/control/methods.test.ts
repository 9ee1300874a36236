import { expect, test } from "vitest";
import { addEndpoints } from "../../../src/control/endpoint.ts";
import { createHttp } from "../../../src/control/http.ts";
import { createProbeHandlers } from "../../../src/control/probes.ts";
import { addControlRoutes } from "../../../src/control/routes.ts";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";
import { paths } from "../../../src/model/paths.ts";

/** The control API without a relay: its ports are empty, so no request can reach them. */
const http = createHttp(null, () => {});
const elsewhere = ["getHealth", "getReadiness", "trackMessages"];
const names = Object.keys(paths).filter((name) => !elsewhere.includes(name));
const plain = Object.fromEntries(names.map((name) => [name, () => {}]));
addControlRoutes(http, { plain, version: "" } as unknown as Parameters<typeof addControlRoutes>[1]);
const probes = createProbeHandlers({ instance: "", version: "" }, () => ({
  ready: true,
  draining: false,
}));
addEndpoints(http, () => async () => {}, probes);
// Some routes are in a scope of their own, which is added later.
await http.ready();

const methods = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "PROPFIND",
] as const;

/**
 * A path's own methods, and those of a path that it also matches, such as `/v1/messages/{wamid}`
 * for `/v1/messages/track`.
 */
function takenBy(path: string): string[] {
  const matching = allEndpoints.filter((endpoint) =>
    new RegExp(`^${endpoint.path.replace(/:\w+/g, "[^/]+")}$`).test(path),
  );
  return [
    ...new Set(
      matching.flatMap(({ method, head }) =>
        method === "GET" && head !== false ? ["GET", "HEAD"] : [method],
      ),
    ),
  ];
}

test("every path under /v1 answers its other methods 405 with `Allow`, whether or not the caller has a token", async () => {
  const paths = new Set(allEndpoints.map(({ path }) => path.replace(/:\w+/g, "some%2Fname")));
  expect(paths.size).toBeGreaterThan(20);
  for (const path of paths) {
    const allowed = takenBy(path);
    for (const method of methods.filter((each) => !allowed.includes(each))) {
      const { statusCode, headers, body } = await http.inject({
        method: method as "GET",
        url: `${path}?x=1`,
      });
      expect([method, path, statusCode, String(headers["allow"]).split(", ").toSorted()]).toEqual([
        method,
        path,
        405,
        allowed.toSorted(),
      ]);
      if (method !== "HEAD") expect(JSON.parse(body)).toMatchObject({ code: "method_not_allowed" });
    }
  }
});

test("an unknown path under /v1 answers every method 404 without `Allow`", async () => {
  for (const url of ["/v1", "/v1/nothing", "/v1/events/some/more", "/v2/events", "//v1/events"]) {
    for (const method of methods) {
      const { statusCode, headers } = await http.inject({ method: method as "GET", url });
      expect([method, url, statusCode, headers["allow"]]).toEqual([method, url, 404, undefined]);
    }
  }
});
