import type { Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { createHttp } from "../control/http.ts";
import { WebhookRequest } from "../receive/webhook-request.ts";

// An import makes Node read everything that node:http has to offer, WebSocket and with it a fetch of its own: 45 ms of each start.
const { createServer } = process.getBuiltinModule("node:http");

/** While stopping: a connection whose last answer went out as kept alive would hold up the end for its whole timeout. */
const closeIdleEveryMs = 50;

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
  const http = createHttp(
    (handler) =>
      createServer(
        {
          requestTimeout: settings.requestTimeout,
          headersTimeout: settings.requestTimeout,
          connectionsCheckingInterval: 1_000,
          keepAliveTimeout: 65_000,
          IncomingMessage: WebhookRequest,
        },
        (request, response) => {
          if (!webhooks(request, response)) handler(request, response);
        },
      ),
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
