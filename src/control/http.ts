import type { Server } from "node:http";
import Fastify, { type FastifyInstance, type FastifyServerFactory } from "fastify";
import { parseBody } from "../event/bounded-json.ts";
import { errorCodes, RelayError } from "../event/errors.ts";
import { maxIdLength } from "../event/ids.ts";
import { answerClientError } from "./client-error.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** For faults nobody foresaw, found when the answer is under way and its status cannot tell them any more. */
    reportFault(error: unknown, requestId: string): void;
  }
}

function noSchemas(): never {
  throw new Error("a route has a schema of Fastify's; zod checks what comes in (queries.ts)");
}

/**
 * Fastify as all pages but the webhooks use it: every error leaves as `{error, code, details?}`.
 * `serverFactory` is null where nothing will listen; `missing` is what a page that is not there is answered.
 */
export function createHttp(
  serverFactory: FastifyServerFactory<Server> | null,
  failed: (error: unknown, requestId: string) => void,
  missing = "no such page",
): FastifyInstance {
  const app = Fastify({
    ...(serverFactory === null ? {} : { serverFactory }),
    bodyLimit: 8 * 1024 * 1024,
    clientErrorHandler: answerClientError,
    // No route here has a schema of Fastify's: what would compile them is not loaded (60 ms of each start).
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    // Faults found before there is a route, such as %zz in a path, do not reach the error handler.
    frameworkErrors: (_error, _request, reply) => {
      const fault = new RelayError("bad_request", "the path is no valid text in percent-encoding, or is too long");
      const body = JSON.stringify(fault.toBody());
      reply.raw.writeHead(fault.status, { "content-type": "application/json", "content-length": body.length }).end(body);
    },
    // While stopping, /readyz says so itself; Fastify's own 503 has another shape than our errors.
    return503OnClosing: false,
    // Any id must fit into a path: four bytes for each code point, each byte written as %XX.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 12 * maxIdLength },
  });

  // A POST without a body is fine where nothing is needed of it, whatever its content type says.
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_request, body, done) => {
    if (body === "") {
      done(null, undefined);
      return;
    }
    try {
      done(null, parseBody(body as string));
    } catch (error) {
      done(error as RelayError);
    }
  });

  app.decorate("reportFault", failed);

  const paths = new Map<string, { readonly pattern: RegExp; readonly methods: string[] }>();
  app.addHook("onRoute", ({ url, method }) => {
    const pattern = new RegExp(`^${url.replace(/[.]/g, "\\.").replace(/:\w+/g, "[^/]+")}/?$`);
    const known = paths.get(url) ?? { pattern, methods: [] };
    paths.set(url, known);
    known.methods.push(...[method].flat());
  });
  // Before the body is read: a missing page does not depend on it.
  app.addHook("onRequest", (request, reply, done) => {
    if (!request.is404) {
      done();
      return;
    }
    const [path = ""] = request.url.split("?");
    const methods = [...paths.values()].filter(({ pattern }) => pattern.test(path)).flatMap((known) => known.methods);
    if (methods.length > 0) reply.header("allow", methods.join(", "));
    done(
      methods.length > 0
        ? new RelayError("method_not_allowed", `this path takes ${methods.join(", ")}`)
        : new RelayError("not_found", missing),
    );
  });

  app.setErrorHandler((error, request, reply) => {
    if (error instanceof RelayError) {
      const retryAfterMs = error.retryAfterMs ?? (error.status === 503 ? 5_000 : null);
      if (retryAfterMs !== null) reply.header("retry-after", Math.ceil(retryAfterMs / 1000));
      if (error.code === "too_many_bad_tokens") reply.header("connection", "close");
      void reply.code(error.status).send(error.toBody());
      return;
    }
    if (error instanceof Error && error.name === "StoreUnavailable") {
      void reply.code(503).header("retry-after", "5").send({ error: error.message, code: "store_unavailable" });
      return;
    }
    const { statusCode } = error as { statusCode?: number };
    if (statusCode === 413) void reply.code(413).send({ error: errorCodes.too_large.meaning, code: "too_large" });
    else if (statusCode !== undefined && statusCode < 500)
      void reply.code(400).send({ error: (error as Error).message, code: "bad_request" });
    else {
      failed(error, request.id);
      void reply.code(500).send({ error: `a fault of the relay; its log says more under request ${request.id}`, code: "internal" });
    }
  });
  return app;
}
