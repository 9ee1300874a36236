import type { FastifyInstance } from "fastify";
import { addEndpoints } from "../../src/control/endpoint.ts";
import { createHttp } from "../../src/control/http.ts";
import { createProbeHandlers } from "../../src/control/probes.ts";
import { addControlRoutes } from "../../src/control/routes.ts";
import { allEndpoints, type NamedEndpoint } from "../../src/model/endpoints/table.ts";
import { paths } from "../../src/model/paths.ts";

/** The control API without a relay: its ports are empty, so no request can reach them. */
export async function controlApi(): Promise<{ http: FastifyInstance; endpoints: readonly NamedEndpoint[] }> {
  const http = createHttp(null, () => {});
  const elsewhere = ["getHealth", "getReadiness", "trackMessages"];
  const plain = Object.fromEntries(Object.keys(paths).flatMap((name) => (elsewhere.includes(name) ? [] : [[name, () => {}]])));
  addControlRoutes(http, { plain, version: "" } as unknown as Parameters<typeof addControlRoutes>[1]);
  addEndpoints(
    http,
    () => async () => {},
    createProbeHandlers({ instance: "", version: "" }, () => ({ ready: true, draining: false })),
  );
  // Some routes are in a scope of their own, which is added later.
  await http.ready();
  return { http, endpoints: allEndpoints };
}
