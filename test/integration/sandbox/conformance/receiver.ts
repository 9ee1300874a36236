import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "../../../harness/until.ts";

export interface Posted {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly raw: Buffer;
  readonly body: Envelope;
}

export interface Envelope {
  readonly id: string;
  readonly event: string;
  readonly createdAt: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Answers one post; not calling `end` leaves the sender waiting. */
export type Answering = (response: ServerResponse, posted: Posted, count: number) => void;

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/**
 * Where webhook events and the requests of automations arrive. Answers 200 unless told otherwise
 * per path.
 */
export async function startReceiver() {
  const arrived: Posted[] = [];
  const answers = new Map<string, Answering>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const raw = Buffer.concat(chunks);
      const path = request.url ?? "";
      const posted: Posted = {
        method: request.method ?? "",
        path,
        headers: request.headers,
        raw,
        body: JSON.parse(raw.toString("utf8")),
      };
      arrived.push(posted);
      const answering = answers.get(path);
      if (answering === undefined) response.end();
      else answering(response, posted, arrived.filter((other) => other.path === path).length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const root = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let paths = 0;
  return {
    /** A URL that nobody posted to yet. */
    url(answering?: Answering): string {
      paths += 1;
      const path = `/hook-${paths}`;
      if (answering !== undefined) answers.set(path, answering);
      return root + path;
    },
    at: (url: string) => arrived.filter(({ path }) => root + path === url),
    /** Waits for `count` posts to that URL. */
    arrivals: (url: string, count: number) =>
      until(`${count} posts to ${url}`, () => {
        const here = arrived.filter(({ path }) => root + path === url);
        return here.length >= count && here;
      }),
    async [Symbol.asyncDispose](): Promise<void> {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
