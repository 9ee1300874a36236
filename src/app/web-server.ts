import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { answerMalformed, createHttp } from "../control/http.ts";
import { mayLast } from "../control/long-request.ts";
import { dropBody, errorAnswer, isTooMuchToDrop, send, sendEarly } from "../receive/answer.ts";
import { WebhookRequest } from "../receive/read-body.ts";

// An import makes Node read everything that node:http has to offer, WebSocket and with it a fetch of its own: 45 ms of each start.
const { createServer } = process.getBuiltinModule("node:http");

/** While stopping: a connection whose last answer went out as kept alive would hold up the end for its whole timeout. */
const closeIdleEveryMs = 50;
/** Requests that one connection may have sent ahead of their answers. */
const mostPipelined = 32;
const stopParsing = -1;

const noHost = errorAnswer("bad_request", "the Host header is missing");
const unknownExpectation = errorAnswer("expectation_failed", "the only expectation supported is 100-continue");
const tooPipelined = errorAnswer("overloaded", `more than ${mostPipelined} requests on this connection wait for their answers`, [
  "retry-after",
  "1",
]);

export interface WebServer {
  /** Every page but the webhooks. */
  readonly http: FastifyInstance;
  readonly server: Server;
  listen(): Promise<AddressInfo>;
  /** Listens no more; resolves when the last request is answered. */
  close(): Promise<void>;
}

/** `webhooks` takes the requests that are its own, and gives false for all others. `missing`: said where a page is not there. */
export function createWebServer(
  settings: Settings["server"],
  webhooks: (request: WebhookRequest, response: ServerResponse) => boolean,
  failed: (error: unknown, requestId: string) => void,
  missing?: string,
): WebServer {
  const isAdmitted = createPipelineLimit(settings.requestTimeout);
  const http = createHttp(
    (handler) => {
      const take = (request: WebhookRequest, response: ServerResponse): void => {
        // Without a socket it waits behind the answer to an earlier request of its connection.
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
          // Node's own answer to it has no body.
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

  /** That have sent nothing yet, as load balancers keep some ready. Listening for their bytes would slow Node's parser down. */
  const silentOnes = () => new Set([...sockets].filter(({ bytesRead }) => bytesRead === 0));

  return {
    http,
    server,
    async listen() {
      await http.listen({ host: settings.host, port: settings.port, backlog: 1024 });
      return server.address() as AddressInfo;
    },
    async close() {
      // Node closes only those that have had an answer. One that begins to send just now has this long to do so.
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

/** The sender is told to go on when its body is read for the first time, so not before a final answer that needs no body. */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const read = request._read;
  request._read = (size) => {
    request._read = read;
    if (!response.headersSent) response.writeContinue();
    read.call(request, size);
  };
}

/**
 * Fastify ends an answer before the request has arrived, and may close the connection with it. Unread bytes would reset it,
 * so the body is read and dropped before the end. Requests that may last end by rules of their own.
 */
function endAfterBody(request: IncomingMessage, response: ServerResponse): void {
  const { headers } = request;
  if (headers["content-length"] === undefined && headers["transfer-encoding"] === undefined) return;
  if (isTooMuchToDrop(request)) response.shouldKeepAlive = false;
  const end = response.end.bind(response);
  response.end = ((body?: string | Buffer | null): ServerResponse => {
    if (request.complete || response.destroyed || mayLast(request.socket)) return end(body);
    if (body) response.write(body);
    else response.flushHeaders();
    dropBody(request, () => end());
    return response;
  }) as ServerResponse["end"];
}

/**
 * One read of a socket can hold two thousand requests, and one turn of the event loop up to 32 such reads. A few such
 * connections would keep all others waiting for seconds. A sender that goes too far ahead gets the answers so far, a 503 and
 * the end of the connection.
 */
function createPipelineLimit(closeWithin: number): (request: IncomingMessage, response: ServerResponse) => boolean {
  /** Of this turn, or not answered yet. */
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
    // Node's own name for what it does with a request. Any other number than its own ends the read here with an error
    // (control/http.ts); nothing public does, and what is left of 50 such reads takes a second.
    if (socket.parser) socket.parser.onIncoming = () => stopParsing;
    socket.pause();
    // Node resumes the socket with the next answer. Nothing more of this one is read.
    socket.resume = () => socket;
    send(response, tooPipelined, true);
    const late = setTimeout(() => socket.destroy(), closeWithin);
    socket.once("close", () => clearTimeout(late));
    return false;
  };
}
