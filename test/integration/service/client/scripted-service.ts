import type net from "node:net";
import { onRequest, startRaw } from "../../url-destination/downstream.ts";

/** A request as it was on the wire. */
export interface WireRequest {
  readonly method: string;
  readonly path: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ScriptedService {
  readonly baseUrl: string;
  readonly seen: readonly WireRequest[];
  /** Connections accepted so far. */
  readonly accepted: number;
  readonly open: ReadonlySet<net.Socket>;
}

/**
 * A TCP port that answers each request, counted from 1, with the bytes it is given, or does to the
 * socket what it likes.
 */
export async function startScripted(
  answer: (request: WireRequest, number: number, socket: net.Socket) => Buffer | string | undefined,
): Promise<ScriptedService> {
  const seen: WireRequest[] = [];
  const downstream = await startRaw((socket) =>
    onRequest(socket, (text) => {
      const request = read(text);
      seen.push(request);
      const bytes = answer(request, seen.length, socket);
      if (bytes !== undefined) socket.write(bytes);
    }),
  );
  return {
    baseUrl: `http://127.0.0.1:${downstream.port}`,
    seen,
    get accepted() {
      return downstream.accepted;
    },
    open: downstream.open,
  };
}

/** The bytes of an answer: `head` as written, then the body's length and the body as UTF-8. */
export function bytesOf(head: string, body: string | Buffer = ""): Buffer {
  const content = typeof body === "string" ? Buffer.from(body, "utf8") : body;
  const lines = head
    .trim()
    .split("\n")
    .map((line) => line.trim());
  return Buffer.concat([
    Buffer.from(`${lines.join("\r\n")}\r\ncontent-length: ${content.length}\r\n\r\n`, "latin1"),
    content,
  ]);
}

/** A JSON answer without more headers. */
export function jsonAnswer(status: number, body: string): Buffer {
  return bytesOf(
    `HTTP/1.1 ${status} Whatever\ncontent-type: application/json; charset=utf-8`,
    body,
  );
}

function read(text: string): WireRequest {
  const end = text.indexOf("\r\n\r\n");
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const [method = "", path = ""] = first.split(" ");
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.split(":", 1)[0]?.toLowerCase() ?? "",
      line.slice(line.indexOf(":") + 1).trim(),
    ]),
  );
  return {
    method,
    path,
    headers,
    body: Buffer.from(text.slice(end + 4), "latin1").toString("utf8"),
  };
}
