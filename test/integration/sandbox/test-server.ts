import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface SeenRequest {
  readonly headers: IncomingMessage["headers"];
  readonly method: string;
  readonly url: string;
  readonly body: Buffer;
}

/** A server that notes each request whole and lets `answer` reply; `count` is 1 for the first. */
export async function startTestServer(answer: (response: ServerResponse, request: SeenRequest, count: number) => void) {
  const seen: SeenRequest[] = [];
  // A connection closed as idle while a stalled process writes to it would lose a post that is made once.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = { headers: request.headers, method: request.method ?? "", url: request.url ?? "", body: Buffer.concat(chunks) };
      seen.push(one);
      answer(response, one, seen.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
