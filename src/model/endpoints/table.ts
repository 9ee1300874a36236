import { z } from "zod";
import type { Endpoint, EndpointOf } from "../endpoint.ts";
import { type EndpointName, paths } from "../paths.ts";
import { reveal } from "../queries.ts";
import { operating, sessions } from "./operate.ts";
import { reading } from "./read.ts";
import { sending } from "./send.ts";
import { streaming } from "./stream.ts";

/**
 * The control API. Handlers, the published client, `/v1/openapi.json` and
 * docs/reference/endpoints.md derive from it.
 */
export const endpoints = {
  ...reading,
  ...operating,
  ...sending,
  ...streaming,
  ...sessions,
} satisfies {
  readonly [Name in EndpointName]: EndpointOf<Name>;
};
export type Endpoints = typeof endpoints;

export interface NamedEndpoint extends Endpoint {
  readonly name: string;
  readonly method: "GET" | "POST";
  /** As Fastify writes it: `/v1/events/:id`. */
  readonly path: string;
}

export function named(name: EndpointName): NamedEndpoint {
  const [method, path] = paths[name].split(" ") as ["GET" | "POST", string];
  const endpoint: Endpoint = endpoints[name];
  const isJson = Object.values(endpoint.answers).some(({ schema }) => schema !== undefined);
  const query =
    endpoint.open !== true && isJson
      ? (endpoint.query ?? z.strictObject({})).extend({ reveal })
      : endpoint.query;
  return { ...endpoint, ...(query === undefined ? {} : { query }), name, method, path };
}

export const allEndpoints: readonly NamedEndpoint[] = (Object.keys(paths) as EndpointName[]).map(
  named,
);
