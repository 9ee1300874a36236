import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { onTestFinished } from "vitest";

/** A server that sends back what it is sent. */
export interface Echo {
  readonly url: string;
  /** Requests so far. */
  count(): number;
}

/** Answers each request with `status` and what `show` makes of the whole request as text. */
export async function openEcho(status: number, show: (request: string) => string | Buffer): Promise<Echo> {
  let count = 0;
  const answer: RequestListener = (request, response) => {
    textOf(request).then(
      (text) => {
        count += 1;
        response.writeHead(status, { "content-type": "text/plain" }).end(show(text));
      },
      // Cut off by its sender.
      () => response.destroy(),
    );
  };
  return { url: await listen(createServer(answer)), count: () => count };
}

/** Answers with the request's own bytes, which are no HTTP answer. */
export async function openMirror(): Promise<Echo> {
  let count = 0;
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (bytes) => {
      count += 1;
      socket.end(bytes);
    });
  });
  return { url: await listen(server), count: () => count };
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { method, url, rawHeaders } = request;
  const headers = rawHeaders.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\n`)).join("");
  return `${method} ${url}\n${headers}\n${Buffer.concat(chunks).toString("utf8")}`;
}
