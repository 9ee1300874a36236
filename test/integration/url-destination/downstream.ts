import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import net from "node:net";
import { onTestFinished, vi } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";

/** A server on a free loopback port that ends with the test. */
export interface Downstream {
  readonly port: number;
  readonly url: string;
  /** Sockets accepted so far, and those still open. */
  accepted: number;
  readonly open: Set<net.Socket>;
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A downstream that speaks HTTP, with the requests it has seen whole. */
export async function startHttp(
  answer: RequestListener,
  host = "127.0.0.1",
): Promise<Downstream & { seen: SeenRequest[] }> {
  const seen: SeenRequest[] = [];
  // Tests count connections: an idle one stays, however slow the machine is.
  const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      seen.push({
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks),
      });
      answer(request, response);
    });
  });
  return Object.assign(await listen(server, host), { seen });
}

/** A downstream that is no more than a TCP port. */
export function startRaw(
  onSocket: (socket: net.Socket, number: number) => void,
  host = "127.0.0.1",
  port = 0,
): Promise<Downstream> {
  let number = 0;
  return listen(
    net.createServer((socket) => {
      number += 1;
      onSocket(socket, number);
    }),
    host,
    port,
  );
}

export async function listen(
  server: net.Server,
  host = "127.0.0.1",
  port = 0,
): Promise<Downstream> {
  const open = new Set<net.Socket>();
  await new Promise<void>((resolve, reject) =>
    server.once("error", reject).listen(port, host, resolve),
  );
  const address = server.address() as net.AddressInfo;
  const downstream: Downstream = {
    port: address.port,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${address.port}/hook`,
    accepted: 0,
    open,
  };
  server.on("connection", (socket: net.Socket) => {
    downstream.accepted += 1;
    open.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => open.delete(socket));
  });
  onTestFinished(async () => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return downstream;
}

/**
 * Calls back each time a request's head and body (by content-length) have arrived on a raw socket.
 */
export function onRequest(socket: net.Socket, callback: (text: string) => void): void {
  let pending = "";
  socket.on("data", (chunk) => {
    pending += chunk.toString("latin1");
    for (;;) {
      const head = pending.indexOf("\r\n\r\n");
      if (head === -1) return;
      const length = Number(/content-length: (\d+)/i.exec(pending.slice(0, head))?.[1] ?? 0);
      const end = head + 4 + length;
      if (pending.length < end) return;
      const request = pending.slice(0, end);
      pending = pending.slice(end);
      callback(request);
    }
  });
}

/**
 * Waits until all the connections to a downstream are closed: nothing of an attempt stays behind.
 */
export async function allClosed(downstream: Downstream): Promise<void> {
  await vi.waitFor(() => {
    if (downstream.open.size > 0) throw new Error(`${downstream.open.size} connections still open`);
  }, longestWaitMs);
}
