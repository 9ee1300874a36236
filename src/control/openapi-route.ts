import type { FastifyInstance } from "fastify";
import { type Allow, addEndpoint, type Endpoint } from "./endpoint.ts";

/**
 * `GET /v1/openapi.json`: describes itself and the endpoints that are added to `app` after it. Nobody is told of the API
 * without a token, as under `/v1` there is no page for those who have none.
 */
export function addOpenApiRoute(app: FastifyInstance, version: string, allow: Allow): void {
  // A HEAD that Fastify makes of a GET comes with the same endpoint.
  const endpoints = new Set<Endpoint>();
  app.addHook("onRoute", ({ config }) => {
    if (config?.endpoint !== undefined) endpoints.add(config.endpoint);
  });
  let text: string | undefined;

  const endpoint = {
    method: "GET",
    path: "/v1/openapi.json",
    name: "describe",
    scope: "read",
    summary: "This description",
    answers: { 200: "OpenAPI 3.1." },
  } as const;
  addEndpoint(app, allow, endpoint, async ({ reply }) => {
    // Not at the start: hardly any relay is ever asked.
    const { describe } = await import("./openapi.ts");
    text ??= JSON.stringify(describe(endpoints, version));
    return reply.type("application/json").send(text);
  });
}
