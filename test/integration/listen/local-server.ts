import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface Post {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly status: number;
}

/** A server on a developer's machine. */
export interface LocalServer {
  readonly url: string;
  readonly port: number;
  /** Every post answered, in order. */
  readonly posts: readonly Post[];
  /** Ids of the envelopes that got a 2xx, in order. */
  taken(): string[];
  /** What posts are answered from now on. */
  answer(status: number | ((body: Buffer) => number)): void;
  /** As when somebody ends it and starts it again. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** Starts one, closed at the test's end. */
export async function openLocalServer(): Promise<LocalServer> {
  const posts: Post[] = [];
  let status: (body: Buffer) => number = () => 200;
  const make = () =>
    createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("error", () => response.destroy());
      request.on("end", () => {
        const body = Buffer.concat(chunks);
        const answered = status(body);
        posts.push({ path: request.url ?? "", headers: request.headers, body, status: answered });
        response.writeHead(answered).end();
      });
    });
  let server = make();
  let port = 0;

  async function start(): Promise<void> {
    server = make();
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    port = (server.address() as AddressInfo).port;
  }
  async function stop(): Promise<void> {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  }
  await start();
  onTestFinished(stop);
  return {
    url: `http://localhost:${port}/hook`,
    port,
    posts,
    taken: () =>
      posts.flatMap(({ body, status: answered }) =>
        answered < 300 ? [(JSON.parse(body.toString("utf8")) as { id: string }).id] : [],
      ),
    answer(next) {
      status = typeof next === "number" ? () => next : next;
    },
    start,
    stop,
  };
}
