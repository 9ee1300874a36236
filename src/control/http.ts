import { type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerFactory,
} from "fastify";
import { challengeOf, type ErrorCode, errorCodes, RelayError } from "../model/errors.ts";
import { maxReferenceLength } from "../model/ids.ts";
import { parseBody } from "../model/json.ts";
import { maskValue } from "../model/mask.ts";
import { knownTo, refuseBody } from "./endpoint.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** What a request that failed is answered with. Reports an unexpected error. */
    faultOf(error: unknown, request: FastifyRequest): RelayError;
  }
}

const bodyLimit = 8 * 1024 ** 2;
const compress = promisify(gzip);
/**
 * Characters of a text that is compressed: a shorter one fits into two packets, and 16 million take
 * a thread 0.2 s.
 */
const leastCompressed = 2_000;
const mostCompressed = 16_000_000;

function takesGzip({ headers }: FastifyRequest): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(String(headers["accept-encoding"] ?? ""));
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
    bodyLimit,
    clientErrorHandler: answerClientError,
    // No route here has a schema of Fastify's, so the schema compilers are not loaded (60 ms of
    // each start).
    schemaController: {
      compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas },
    },
    // Faults found before routing, such as %zz in a path, do not reach the error handler.
    frameworkErrors: (_error, { url }, reply) => {
      // A browser shows the console's own page instead of JSON.
      if (url.startsWith("/console/")) {
        reply.redirect(url.replaceAll("%", "%25"));
        return;
      }
      const fault = new RelayError(
        "bad_request",
        "the path is not valid percent-encoded text, or is too long",
      );
      void (reply as FastifyReply).code(fault.status).send(fault.toBody());
    },
    // While stopping, /readyz reports it; Fastify's own 503 does not have the shape of our errors.
    return503OnClosing: false,
    // Any id or reference must fit into a path: four bytes for each code point, each byte written
    // as %XX.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 12 * maxReferenceLength },
  });

  // A POST may have an empty body where the endpoint needs none, whatever its content type.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/json",
    { parseAs: "buffer" },
    async (_request: unknown, body: Buffer) => (body.length === 0 ? undefined : parseBody(body)),
  );

  app.decorate("faultOf", (error, request) => {
    const fault = faultOf(error, request);
    if (fault.code === "internal") failed(error, request.id);
    return fault;
  });
  app.decorateRequest("caller", null);
  app.decorateRequest("isMasked", true);
  app.decorateRequest("about", null);

  const routes: { readonly pattern: RegExp; readonly method: string | string[] }[] = [];
  app.addHook("onRoute", ({ url, method }) => {
    const pattern = new RegExp(
      `^${url.replace(/[.]/g, "\\.").replace(/:\w+/g, "[^/]+").replace("*", ".*")}/?$`,
    );
    routes.push({ pattern, method });
  });
  // Before the body is read: whether a page exists does not depend on it.
  app.addHook("onRequest", async ({ url, is404 }, reply) => {
    const [path = "", query = ""] = url.split("?");
    if (!is404) {
      if (isDecodable(query)) return;
      throw new RelayError("bad_request", "the query is not valid percent-encoded UTF-8");
    }
    const matching = routes.filter(({ pattern }) => pattern.test(path));
    const methods = [...new Set(matching.flatMap(({ method }) => method))].join(", ");
    if (methods === "") throw new RelayError("not_found", missing);
    reply.header("allow", methods);
    throw new RelayError("method_not_allowed", `this path takes ${methods}`);
  });

  // Streams pass unchanged: an event must leave at once. The event loop only waits for the
  // compression, which a thread does.
  app.addHook("onSend", async (request, reply, payload) => {
    if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store");
    if (
      typeof payload !== "string" ||
      payload.length < leastCompressed ||
      payload.length > mostCompressed
    )
      return payload;
    reply.header("vary", "accept-encoding");
    if (request.method === "HEAD" || !takesGzip(request)) return payload;
    reply.removeHeader("content-length").header("content-encoding", "gzip");
    return compress(payload);
  });

  app.addHook("preParsing", async (request) => refuseBody(request));

  app.setErrorHandler((error, request, reply) => {
    const fault = app.faultOf(error, request);
    const retryAfterMs = fault.retryAfterMs ?? (fault.status === 503 ? 5_000 : null);
    if (retryAfterMs !== null) reply.header("retry-after", Math.ceil(retryAfterMs / 1000));
    const challenge = challengeOf(fault.code);
    if (challenge !== null) reply.header("www-authenticate", challenge);
    if (fault.code === "too_many_bad_tokens") reply.header("connection", "close");
    const body = fault.toBody();
    void reply
      .code(fault.status)
      .send(request.isMasked && fault === error ? maskValue(body, null, knownTo(request)) : body);
  });
  return app;
}

function faultOf(error: unknown, { id, routeOptions }: FastifyRequest): RelayError {
  if (error instanceof RelayError) return error;
  const { name, message, statusCode = 500 } = error as Error & { statusCode?: number };
  if (name === "StoreUnavailable") return new RelayError("store_unavailable", message);
  const takesLines = routeOptions.config.endpoint?.lines !== undefined;
  if (statusCode === 415)
    return new RelayError(
      "unsupported_media_type",
      `the content type must be application/json${takesLines ? " or application/x-ndjson" : ""}`,
    );
  if (statusCode === 413) {
    const remedy = takesLines ? "send the lines in several requests" : "send less at once";
    return new RelayError(
      "too_large",
      `the body is larger than ${bodyLimit / 1024 ** 2} MiB: ${remedy}`,
    );
  }
  if (statusCode < 500) return new RelayError("bad_request", message);
  return new RelayError("internal", `internal error; see the relay's log under request ${id}`);
}

/** Fastify's parser of queries keeps what it cannot decode. */
function isDecodable(query: string): boolean {
  try {
    decodeURIComponent(query);
    return true;
  } catch {
    return false;
  }
}

const parserErrors: Readonly<Record<string, readonly [code: ErrorCode, error: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "the request did not arrive whole in time"],
  HPE_HEADER_OVERFLOW: ["headers_too_large", "request line and headers are too large"],
};
const malformed = ["bad_request", "not a valid HTTP request"] as const;

/**
 * A request that Node's parser refuses never reaches Fastify. It is answered on the socket, in the
 * shape of all errors, and the connection is closed.
 */
function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  // From a connection that web-server.ts stopped reading: it ends with its last answer.
  if (error.code === "HPE_CB_HEADERS_COMPLETE") return;
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  if (socket.writable && currentAnswer(socket)?.headersSent !== true)
    writeError(socket, parserErrors[error.code ?? ""] ?? malformed);
  socket.destroy(error);
}

/** For CONNECT, which Node takes out of the parser without an answer. */
export function answerMalformed(socket: Socket): void {
  // Written during an earlier answer, it would corrupt that one.
  if (socket.writable && currentAnswer(socket) === null) writeError(socket, malformed);
  socket.destroySoon();
}

/**
 * A private property of Node's; its default handler checks the same (_http_server.js,
 * socketOnError).
 */
function currentAnswer(socket: Socket): ServerResponse | null {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

function writeError(socket: Socket, [code, text]: readonly [code: ErrorCode, error: string]): void {
  const { status } = errorCodes[code];
  const body = JSON.stringify({ error: text, code });
  socket.write(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}
