import { startHttp, startRaw } from "../integration/url-destination/downstream.ts";

/** A server that sends back what it is sent. */
export interface Echo {
  readonly url: string;
  /** Requests so far. */
  count(): number;
}

/** Answers each request with `status` and what `show` makes of the whole request as text. */
export async function openEcho(
  status: number,
  show: (request: string) => string | Buffer,
): Promise<Echo> {
  const { port, seen } = await startHttp(({ method, url, rawHeaders }, response) => {
    const headers = rawHeaders
      .map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\n`))
      .join("");
    const text = `${method} ${url}\n${headers}\n${seen.at(-1)?.body.toString("utf8")}`;
    response.writeHead(status, { "content-type": "text/plain" }).end(show(text));
  });
  return { url: `http://127.0.0.1:${port}`, count: () => seen.length };
}

/** Answers with the request's own bytes, which are no HTTP answer. */
export async function openMirror(): Promise<Echo> {
  let count = 0;
  const { port } = await startRaw((socket) => {
    socket.once("data", (bytes) => {
      count += 1;
      socket.end(bytes);
    });
  });
  return { url: `http://127.0.0.1:${port}`, count: () => count };
}
