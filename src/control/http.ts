import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import Fastify, { type FastifyInstance, type FastifyServerFactory } from "fastify";
import { type ErrorCode, errorCodes, RelayError } from "../model/errors.ts";
import { maxIdLength } from "../model/ids.ts";
import { parseBody } from "../model/json.ts";
import { maskValue } from "../model/mask.ts";
import { refuseUnexpectedBody } from "./endpoint.ts";
import { isLongRequest } from "./long-request.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** For unexpected faults found after the status was sent. */
    reportFault(error: unknown, requestId: string): void;
  }
}

function noSchemas(): never {
  throw new Error("a route has a schema of Fastify's; zod checks what comes in (endpoint.ts)");
}

/**
 * Fastify for every page but the webhooks: every error is answered as `{error, code, details?}`.
 * `serverFactory` is null where nothing listens; `missing` is the error text for an unknown page.
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
    // No route here has a schema of Fastify's, so the schema compilers are not loaded (60 ms of each start).
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    // Faults found before routing, such as %zz in a path, do not reach the error handler.
    frameworkErrors: (_error, _request, reply) => {
      const fault = new RelayError("bad_request", "the path is not valid percent-encoded text, or is too long");
      const body = JSON.stringify(fault.toBody());
      reply.raw.writeHead(fault.status, { "content-type": "application/json", "content-length": body.length }).end(body);
    },
    // While stopping, /readyz reports it; Fastify's own 503 does not have the shape of our errors.
    return503OnClosing: false,
    // Any id must fit into a path: four bytes for each code point, each byte written as %XX.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 12 * maxIdLength },
  });

  // A POST may have an empty body where the endpoint needs none, whatever its content type.
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
  app.decorateRequest("caller", null);
  app.decorateRequest("isMasked", true);

  const paths = new Map<string, { readonly pattern: RegExp; readonly methods: string[] }>();
  app.addHook("onRoute", ({ url, method }) => {
    const pattern = new RegExp(`^${url.replace(/[.]/g, "\\.").replace(/:\w+/g, "[^/]+").replace("*", ".*")}/?$`);
    const known = paths.get(url) ?? { pattern, methods: [] };
    paths.set(url, known);
    known.methods.push(...[method].flat());
  });
  // Before the body is read: whether a page exists does not depend on it.
  app.addHook("onRequest", (request, reply, done) => {
    if (!request.is404) {
      done();
      return;
    }
    const [path = ""] = request.url.split("?");
    const matching = [...paths.values()].filter(({ pattern }) => pattern.test(path));
    const methods = [...new Set(matching.flatMap((known) => known.methods))].join(", ");
    if (methods === "") {
      done(new RelayError("not_found", missing));
      return;
    }
    reply.header("allow", methods);
    done(new RelayError("method_not_allowed", `this path takes ${methods}`));
  });

  app.addHook("preParsing", async (request) => refuseUnexpectedBody(request));

  app.setErrorHandler((error, request, reply) => {
    if (error instanceof RelayError) {
      const retryAfterMs = error.retryAfterMs ?? (error.status === 503 ? 5_000 : null);
      if (retryAfterMs !== null) reply.header("retry-after", Math.ceil(retryAfterMs / 1000));
      if (error.code === "too_many_bad_tokens") reply.header("connection", "close");
      const body = error.toBody();
      void reply.code(error.status).send(request.isMasked ? maskValue(body, null) : body);
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
      void reply.code(500).send({ error: `internal error; see the relay's log under request ${request.id}`, code: "internal" });
    }
  });
  return app;
}

const parserErrors: Readonly<Record<string, readonly [code: ErrorCode, error: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "the request did not arrive whole in time"],
  HPE_HEADER_OVERFLOW: ["headers_too_large", "request line and headers are too large"],
};
const malformed = ["bad_request", "not a valid HTTP request"] as const;
const reasons: Readonly<Record<number, string>> = { 400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large" };

/**
 * A request that Node's parser refuses never reaches Fastify. It is answered on the socket, in the shape of all errors,
 * and the connection is closed.
 */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  // From a connection that web-server.ts stopped reading: it ends with its last answer.
  if (error.code === "HPE_CB_HEADERS_COMPLETE") return;
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT" && isLongRequest(socket)) return;
  if (socket.writable && currentAnswer(socket)?.headersSent !== true) writeError(socket, parserErrors[error.code ?? ""] ?? malformed);
  socket.destroy(error);
}

/** For CONNECT, which Node takes out of the parser without an answer. */
export function answerMalformed(socket: Socket): void {
  // Written during an earlier answer, it would corrupt that one.
  if (socket.writable && currentAnswer(socket) === null) writeError(socket, malformed);
  socket.destroySoon();
}

/** A private property of Node's; its default handler checks the same (_http_server.js, socketOnError). */
function currentAnswer(socket: Socket): ServerResponse | null {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

function writeError(socket: Socket, [code, text]: readonly [code: ErrorCode, error: string]): void {
  const { status } = errorCodes[code];
  const body = JSON.stringify({ error: text, code });
  socket.write(
    `HTTP/1.1 ${status} ${reasons[status]}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}
