import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { ErrorCode } from "../event/errors.ts";
import { parse } from "./queries.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    endpoint?: Endpoint;
  }
}

/** Checks who asks, before the body is read: throws `unauthorized` or `forbidden`. */
export type OnRequest = (request: FastifyRequest) => Promise<void>;
/** The check for a scope. */
export type Allow = (scope: string) => OnRequest;

/**
 * One endpoint of the control API. What comes in is parsed with these schemas, and `/v1/openapi.json` is made of them, so
 * that the two are one.
 */
export interface Endpoint {
  readonly method: "GET" | "POST";
  /** As Fastify has it: `/v1/events/:id`. */
  readonly path: string;
  /** The operation's, for programs that are made from the description. */
  readonly name: string;
  readonly scope: string;
  /** A few words. */
  readonly summary: string;
  /** In Markdown: what is to be known beyond the schemas. */
  readonly description?: string;
  /** Needed, with all of the path's names, when it has some. */
  readonly params?: z.ZodObject;
  /** A strict one. Not given: it has none, and whatever is asked with is refused. */
  readonly query?: z.ZodObject;
  /** Names in lower case, as Node has them. */
  readonly headers?: z.ZodObject;
  /** Of JSON. One that takes `undefined` need not be sent. */
  readonly body?: z.ZodType;
  /** What the lines are of a body of NDJSON, where one is taken too; the handler gets it as a stream. */
  readonly lines?: string;
  /** By status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** Beside those that any endpoint may answer with. */
  readonly errors?: readonly ErrorCode[];
  /** False where HEAD would have no end. */
  readonly head?: false;
}

/** Text says what it tells. `list`: `{data: […]}`, with `next` where the query has `before`. */
export type Answer = string | { readonly text: string; readonly list: true } | { readonly text: string; readonly types: readonly string[] };

type Parsed<E, Part extends string> = E extends Readonly<Record<Part, infer S extends z.ZodType>> ? z.infer<S> : undefined;

/** A request as parsed; what the endpoint does not have is undefined. */
export interface Asked<E extends Endpoint> {
  readonly params: Parsed<E, "params">;
  readonly query: Parsed<E, "query">;
  readonly headers: Parsed<E, "headers">;
  readonly body: Parsed<E, "body"> | (E extends { readonly lines: string } ? Readable : never);
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** A parameter at the wrong endpoint is told of too: `limit=5` at `/v1/replay`, whose body has it, would let everything go. */
const noQuery = z.strictObject({}).transform(() => undefined);

/** Adds the route of `endpoint`, for those whom `allow` lets. Requests that do not fit its schemas are answered `bad_request`. */
export function addEndpoint<const E extends Endpoint>(
  app: FastifyInstance,
  allow: Allow,
  endpoint: E,
  answer: (asked: Asked<E>) => unknown,
): void {
  const { method, path, scope, params, query, headers, body, head }: Endpoint = endpoint;
  app.route({
    method,
    url: path,
    onRequest: allow(scope),
    ...(head === undefined ? {} : { exposeHeadRoute: head }),
    config: { endpoint },
    handler: async (request, reply) => {
      const asked = {
        params: params && parse(params, request.params),
        query: parse(query ?? noQuery, request.query),
        body: request.body instanceof Readable ? request.body : body && parse(body, request.body ?? undefined),
        headers: headers && parse(headers, request.headers),
        request,
        reply,
      };
      return answer(asked as unknown as Asked<E>);
    },
  });
}
