import { once } from "node:events";
import http from "node:http";
import { createInterface } from "node:readline";
import type { AnyRelay } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";

export interface ReportStream {
  /** Resolves when there is room for more. */
  write(text: string): Promise<void>;
  end(): void;
  /** Sends the headers, though there is no body yet. */
  flush(): void;
  destroy(): void;
  /** The next line of the report; null at its end. */
  next(): Promise<Record<string, unknown> | null>;
  whole(): Promise<{ status: number; type: string | undefined; lines: Record<string, unknown>[] }>;
  /** Resolves when the connection is closed. */
  closed(): Promise<void>;
  localPort(): number | undefined;
}

/** `POST /v1/messages/track` as NDJSON, both ways at once. `read: false`: the answer is never read. */
export async function openStream(
  relay: Pick<AnyRelay, "port">,
  { read = true, headers = {}, agent }: { read?: boolean; headers?: Record<string, string>; agent?: http.Agent } = {},
): Promise<ReportStream> {
  const request = http.request({
    host: "127.0.0.1",
    port: relay.port,
    method: "POST",
    path: "/v1/messages/track",
    headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/x-ndjson", ...headers },
    ...(agent === undefined ? {} : { agent }),
  });
  let port: number | undefined;
  const closed = new Promise<void>((resolve) => {
    request.once("socket", (socket) => {
      socket.once("connect", () => {
        port = socket.localPort;
      });
      port ??= socket.localPort;
      socket.once("close", () => resolve());
    });
  });
  request.on("error", () => {});
  const answered = once(request, "response").then(([response]) => response as http.IncomingMessage);
  answered.catch(() => {});
  const lines = (async function* () {
    const response = await answered;
    for await (const text of createInterface({ input: response })) yield text;
  })();
  if (!read)
    void answered.then(
      (response) => response.pause(),
      () => {},
    );

  async function next(): Promise<Record<string, unknown> | null> {
    const { value, done } = await lines.next();
    return done === true ? null : (JSON.parse(value) as Record<string, unknown>);
  }

  return {
    async write(text) {
      if (!request.write(text)) await Promise.race([once(request, "drain").catch(() => {}), closed]);
    },
    end: () => void request.end(),
    flush: () => request.flushHeaders(),
    destroy: () => void request.destroy(),
    next,
    async whole() {
      const response = await answered;
      const all: Record<string, unknown>[] = [];
      for (let one = await next(); one !== null; one = await next()) all.push(one);
      return { status: response.statusCode ?? 0, type: response.headers["content-type"], lines: all };
    },
    closed: () => closed,
    localPort: () => port,
  };
}
