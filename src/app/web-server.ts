import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import type { Server as HttpsServer } from "node:https";
import { type AddressInfo, Socket } from "node:net";
import { setImmediate as turn, setTimeout as wait } from "node:timers/promises";
import { keptAfterReload, type Settings } from "../config/schema.ts";
import { answerMalformed, createHttp } from "../control/http.ts";
import { type ListenTls, listenOptions, tlsOptions } from "../net/tls.ts";
import {
  dropBody,
  errorAnswer,
  isTooMuchToDrop,
  send,
  sendEarly,
  WebhookRequest,
} from "../receive/http.ts";
import { limitConnections } from "./connection-limit.ts";
import { apiHook } from "./hooks.ts";
import type { Observed } from "./observe.ts";

// An import makes Node load all exports of node:http, with WebSocket and another fetch: 45 ms of
// each start.
const { createServer } = process.getBuiltinModule("node:http");

/** While stopping: an idle kept-alive connection would delay the end for its whole timeout. */
const closeIdleEveryMs = 50;
/**
 * While stopping: the longest time to serve a proxy's connections, each until its next answer, and
 * then to accept waiting ones.
 */
const longestDrainMs = 1_000;
/** Most requests of one connection that wait for their answers. */
const mostPipelined = 32;
const stopParsing = -1;
/** An event stream that takes no byte for this long is closed. It has a comment every 15 s. */
const longestStreamSilenceMs = 300_000;

const noHost = errorAnswer("bad_request", "the Host header is missing");
const twoHosts = errorAnswer("bad_request", "there are several Host headers");
const unknownExpectation = errorAnswer(
  "expectation_failed",
  "the only expectation supported is 100-continue",
);
const tooPipelined = errorAnswer(
  "overloaded",
  `more than ${mostPipelined} requests on this connection wait for their answers`,
  ["retry-after", "1"],
);

type ListenAddress = Pick<Settings["server"], "host" | "port" | "tls">;

/** Handles the requests of webhooks, and returns false for all others. */
type WebhookHandler = (request: WebhookRequest, response: ServerResponse) => boolean;

interface WebServerParts {
  readonly webhooks: WebhookHandler;
  readonly failed: (error: unknown, requestId: string) => void;
  /** The error text for an unknown page. */
  readonly missing?: string | undefined;
}

type WebServer = ReturnType<typeof createWebServer>;

export function createWebServer(
  settings: ListenAddress & Pick<Settings["server"], "requestTimeout" | "trustProxy">,
  { webhooks, failed, missing }: WebServerParts,
) {
  const isAdmitted = createPipelineLimit(settings.requestTimeout);
  let isDraining = false;
  const http = createHttp(
    (handler) => {
      const take = (request: WebhookRequest, response: ServerResponse): void => {
        // Without a socket, it waits for the answer to an earlier request of its connection.
        if (response.socket === null && !isAdmitted(request, response)) return;
        if (isDraining) response.shouldKeepAlive = false;
        if (request.headers.host === undefined && request.httpVersion === "1.1")
          sendEarly(request, response, noHost, true);
        else if (hasTwoHosts(request.rawHeaders)) sendEarly(request, response, twoHosts, true);
        else if (!webhooks(request, response)) {
          endAfterBody(request, response);
          handler(request, response);
        }
      };
      const options: ServerOptions<typeof WebhookRequest> = {
        requestTimeout: settings.requestTimeout,
        headersTimeout: settings.requestTimeout,
        connectionsCheckingInterval: 1_000,
        keepAliveTimeout: 65_000,
        IncomingMessage: WebhookRequest,
        // Node's own answer has no body.
        requireHostHeader: false,
      };
      const { tls } = settings;
      const secure = tls && {
        ...options,
        ...listenOptions(tls),
        handshakeTimeout: settings.requestTimeout,
      };
      const server: Server<typeof WebhookRequest> =
        secure === undefined
          ? createServer(options, take)
          : process.getBuiltinModule("node:https").createServer(secure, take);
      server.on("checkContinue", (request, response) => {
        continueWhenRead(request, response);
        take(request, response);
      });
      server.on("checkExpectation", (request, response) =>
        sendEarly(request, response, unknownExpectation, true),
      );
      server.on("connect", (_request, socket: Socket) => answerMalformed(socket));
      return server;
    },
    failed,
    missing,
  );
  // A client that does not read its answer would hold it, and its connection, forever.
  http.addHook("onSend", async ({ raw }, reply) => {
    const isEventStream = String(reply.getHeader("content-type")).startsWith("text/event-stream");
    // A request made by `inject` has no such socket.
    if (raw.socket instanceof Socket)
      reply.raw.setTimeout(isEventStream ? longestStreamSilenceMs : settings.requestTimeout);
  });
  const server = http.server as Server;
  const sockets = new Set<Socket>();
  let accepted = 0;
  const opened = (socket: Socket): void => {
    accepted += 1;
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  };
  // With TLS, the handshake is bytes of the connection, and none of what it carries.
  server.on("connection", opened).on("secureConnection", opened);

  /**
   * Connections that have sent nothing yet, such as those of load balancers. A listener for their
   * data would slow Node's parser.
   */
  const silentOnes = () => new Set([...sockets].filter(({ bytesRead }) => bytesRead === 0));

  return {
    /** Every page except the webhooks. */
    http,
    server,
    async listen(): Promise<AddressInfo> {
      await http.listen({ host: settings.host, port: settings.port, backlog: 1024 });
      return server.address() as AddressInfo;
    },
    /** For later connections. Has no effect on a port without TLS. */
    renewTls(tls: ListenTls | undefined): void {
      if (tls !== undefined && "setSecureContext" in server)
        (server as HttpsServer).setSecureContext(tlsOptions(tls));
    },
    /**
     * Behind a proxy: ends each connection with its next answer. A proxy that sent on a connection
     * being closed could not know whether the request was taken, and would answer 502.
     */
    async drain(): Promise<void> {
      isDraining = true;
      let end = performance.now() + (settings.trustProxy.length === 0 ? 0 : longestDrainMs);
      while (sockets.size > 0 && performance.now() < end) await wait(closeIdleEveryMs);
      // Node accepts one connection a turn. Those that wait when the port closes are reset, although
      // they may have sent a request.
      end = performance.now() + longestDrainMs;
      for (let before = -1; accepted > before && performance.now() < end; ) {
        before = accepted;
        // The first one may end the turn that runs.
        await turn();
        await turn();
      }
    },
    /** Stops listening; resolves when the last request is answered. */
    async close(): Promise<void> {
      // Node closes only those that have had an answer. One that is about to send has this long to
      // do so.
      let waited: ReadonlySet<Socket> = new Set();
      const closingIdle = setInterval(() => {
        server.closeIdleConnections();
        const silent = silentOnes();
        for (const socket of silent) if (waited.has(socket)) socket.destroy();
        waited = silent;
      }, closeIdleEveryMs);
      await http.close();
      clearInterval(closingIdle);
    },
  };
}

/** Node keeps the first one, and a proxy may have read another one. */
function hasTwoHosts(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  return hosts > 1;
}

/**
 * Sends 100-continue when the body is first read, and so not before a final answer that needs no
 * body.
 */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read;
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    read.call(request, size);
  };
}

/**
 * Fastify may end an answer, and close the connection, before the request has arrived. Unread bytes
 * would reset the connection, so the body is read and dropped first.
 */
function endAfterBody(request: IncomingMessage, response: ServerResponse): void {
  const { headers } = request;
  if (headers["content-length"] === undefined && headers["transfer-encoding"] === undefined) return;
  if (isTooMuchToDrop(request)) response.shouldKeepAlive = false;
  const end = response.end.bind(response);
  response.end = ((body?: string | Buffer | null): ServerResponse => {
    if (request.complete || response.destroyed) return end(body);
    if (body) response.write(body);
    else response.flushHeaders();
    dropBody(request, () => end());
    return response;
  }) as ServerResponse["end"];
}

/**
 * One read of a socket can hold two thousand requests, and one turn of the event loop up to 32 such
 * reads, so a few such connections would delay all others for seconds. A sender that pipelines too
 * many requests gets the answers so far, a 503 and the end of the connection.
 */
function createPipelineLimit(
  closeWithin: number,
): (request: IncomingMessage, response: ServerResponse) => boolean {
  /** Requests of this turn, or not answered yet. */
  const counts = new WeakMap<Socket, number>();
  return (request, response) => {
    const socket: Socket & { parser?: { onIncoming: () => number } | null } = request.socket;
    const count = (counts.get(socket) ?? 0) + 1;
    if (count > mostPipelined + 1) return false;
    counts.set(socket, count);
    if (count <= mostPipelined) {
      response.once("close", () =>
        setImmediate(() => counts.set(socket, (counts.get(socket) ?? 0) - 1)),
      );
      return true;
    }
    // An internal of Node: a result that it does not know ends the read with an error
    // (control/http.ts). Nothing public does, and the rest of 50 such reads takes a second.
    if (socket.parser) socket.parser.onIncoming = () => stopParsing;
    socket.pause();
    // Node would resume the socket with the next answer.
    socket.resume = () => socket;
    send(response, tooPipelined, true);
    const late = setTimeout(() => socket.destroy(), closeWithin);
    socket.once("close", () => clearTimeout(late));
    return false;
  };
}

/**
 * The public port, and that of the control API: the same without `server.control`. `webhooks` is
 * null in a process that takes none.
 */
export function createWebServers(
  { live, log, metrics }: Observed,
  webhooks: WebhookHandler | null,
) {
  const { server } = live.initial;

  /** `missing`: the error text for an unknown page. */
  function create(
    address: ListenAddress,
    handler: WebhookHandler | null,
    missing: string | undefined,
  ): WebServer {
    const web = createWebServer(
      { ...address, requestTimeout: server.requestTimeout, trustProxy: server.trustProxy },
      {
        webhooks: handler ?? (() => false),
        failed: (error, requestId) => log.error({ err: error, requestId }, "a request failed"),
        missing:
          webhooks === null
            ? "no such page: this process has the role work, and processes with the role receive serve webhooks and /v1"
            : missing,
      },
    );
    web.http.addHook("onResponse", apiHook(metrics));
    return web;
  }

  const { control } = server;
  const web = create(
    server,
    webhooks,
    control === undefined
      ? undefined
      : "no such page: the control API and the metrics have their own port (server.control)",
  );
  limitConnections(web.server, { log, metrics });
  const controlWeb =
    control === undefined
      ? web
      : create(control, null, "no such page: this is server.control; webhooks are at server.port");
  live.follow((next) => {
    const { server: renewed } = keptAfterReload(live.initial, next);
    web.renewTls(renewed.tls);
    if (web !== controlWeb) controlWeb.renewTls(renewed.control?.tls);
  });
  return { web, controlWeb, all: new Set([controlWeb, web]) };
}
