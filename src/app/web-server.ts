import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { answerMalformed, createHttp } from "../control/http.ts";
import { isLongRequest } from "../control/long-request.ts";
import { dropBody, errorAnswer, isTooMuchToDrop, send, sendEarly } from "../receive/answer.ts";
import { WebhookRequest } from "../receive/read-body.ts";

// An import makes Node load all exports of node:http, with WebSocket and another fetch: 45 ms of each start.
const { createServer } = process.getBuiltinModule("node:http");

/** While stopping: an idle kept-alive connection would delay the end for its whole timeout. */
const closeIdleEveryMs = 50;
/** Most requests of one connection that wait for their answers. */
const mostPipelined = 32;
const stopParsing = -1;

const noHost = errorAnswer("bad_request", "the Host header is missing");
const unknownExpectation = errorAnswer("expectation_failed", "the only expectation supported is 100-continue");
const tooPipelined = errorAnswer("overloaded", `more than ${mostPipelined} requests on this connection wait for their answers`, [
  "retry-after",
  "1",
]);

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Handles the requests of webhooks, and returns false for all others. */
export type WebhookHandler = (request: WebhookRequest, response: ServerResponse) => boolean;

interface WebServerParts {
  readonly webhooks: WebhookHandler;
  readonly failed: (error: unknown, requestId: string) => void;
  /** The error text for an unknown page. */
  readonly missing?: string | undefined;
}

export interface WebServer {
  /** Every page except the webhooks. */
  readonly http: FastifyInstance;
  readonly server: Server;
  listen(): Promise<AddressInfo>;
  /** Stops listening; resolves when the last request is answered. */
  close(): Promise<void>;
}

export function createWebServer(
  settings: ListenAddress & Pick<Settings["server"], "requestTimeout">,
  { webhooks, failed, missing }: WebServerParts,
): WebServer {
  const isAdmitted = createPipelineLimit(settings.requestTimeout);
  const http = createHttp(
    (handler) => {
      const take = (request: WebhookRequest, response: ServerResponse): void => {
        // Without a socket, it waits for the answer to an earlier request of its connection.
        if (response.socket === null && !isAdmitted(request, response)) return;
        if (request.headers.host === undefined && request.httpVersion === "1.1") sendEarly(request, response, noHost, true);
        else if (!webhooks(request, response)) {
          endAfterBody(request, response);
          handler(request, response);
        }
      };
      const server = createServer(
        {
          requestTimeout: settings.requestTimeout,
          headersTimeout: settings.requestTimeout,
          connectionsCheckingInterval: 1_000,
          keepAliveTimeout: 65_000,
          IncomingMessage: WebhookRequest,
          // Node's own answer has no body.
          requireHostHeader: false,
        },
        take,
      );
      server.on("checkContinue", (request, response) => {
        continueWhenRead(request, response);
        take(request, response);
      });
      server.on("checkExpectation", (request, response) => sendEarly(request, response, unknownExpectation, true));
      server.on("connect", (_request, socket: Socket) => answerMalformed(socket));
      return server;
    },
    failed,
    missing,
  );
  const server = http.server as Server;
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });

  /** Connections that have sent nothing yet, such as those of load balancers. A listener for their data would slow Node's parser. */
  const silentOnes = () => new Set([...sockets].filter(({ bytesRead }) => bytesRead === 0));

  return {
    http,
    server,
    async listen() {
      await http.listen({ host: settings.host, port: settings.port, backlog: 1024 });
      return server.address() as AddressInfo;
    },
    async close() {
      // Node closes only those that have had an answer. One that is about to send has this long to do so.
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

/** Sends 100-continue when the body is first read, and so not before a final answer that needs no body. */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read;
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    read.call(request, size);
  };
}

/**
 * Fastify may end an answer, and close the connection, before the request has arrived. Unread bytes would reset the
 * connection, so the body is read and dropped first. Long requests have rules of their own.
 */
function endAfterBody(request: IncomingMessage, response: ServerResponse): void {
  const { headers } = request;
  if (headers["content-length"] === undefined && headers["transfer-encoding"] === undefined) return;
  if (isTooMuchToDrop(request)) response.shouldKeepAlive = false;
  const end = response.end.bind(response);
  response.end = ((body?: string | Buffer | null): ServerResponse => {
    if (request.complete || response.destroyed || isLongRequest(request.socket)) return end(body);
    if (body) response.write(body);
    else response.flushHeaders();
    dropBody(request, () => end());
    return response;
  }) as ServerResponse["end"];
}

/**
 * One read of a socket can hold two thousand requests, and one turn of the event loop up to 32 such reads, so a few such
 * connections would delay all others for seconds. A sender that pipelines too many requests gets the answers so far, a 503
 * and the end of the connection.
 */
function createPipelineLimit(closeWithin: number): (request: IncomingMessage, response: ServerResponse) => boolean {
  /** Requests of this turn, or not answered yet. */
  const counts = new WeakMap<Socket, number>();
  return (request, response) => {
    const socket: Socket & { parser?: { onIncoming: () => number } | null } = request.socket;
    const count = (counts.get(socket) ?? 0) + 1;
    if (count > mostPipelined + 1) return false;
    counts.set(socket, count);
    if (count <= mostPipelined) {
      response.once("close", () => setImmediate(() => counts.set(socket, (counts.get(socket) ?? 0) - 1)));
      return true;
    }
    // An internal of Node: a result that it does not know ends the read with an error (control/http.ts). Nothing public
    // does, and the rest of 50 such reads takes a second.
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
