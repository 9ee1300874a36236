import type { IncomingMessage, ServerResponse } from "node:http";
import { challengeOf, type ErrorCode, errorCodes } from "../model/errors.ts";

export interface Answer {
  readonly status: number;
  readonly headers: readonly string[];
  /** Text if possible: Node writes text together with the headers, in one system call. */
  readonly body: string | Buffer;
  /** Of a text body. Node writes `latin1` without measuring it first. */
  readonly encoding?: "latin1" | "utf8";
}

export function jsonAnswer(status: number, value: unknown, extra: readonly string[] = []): Answer {
  const body = JSON.stringify(value);
  const length = Buffer.byteLength(body);
  const headers = ["content-type", "application/json", "content-length", String(length), ...extra];
  return { status, headers, body, encoding: length === body.length ? "latin1" : "utf8" };
}

export function errorAnswer(code: ErrorCode, error: string, extra: readonly string[] = []): Answer {
  const challenge = challengeOf(code);
  const headers = challenge === null ? extra : ["www-authenticate", challenge, ...extra];
  return jsonAnswer(errorCodes[code].status, { error, code }, headers);
}

/** `end` closes the connection after the answer. */
export function send(response: ServerResponse, answer: Answer, end = false): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(answer.status, (end ? [...answer.headers, "connection", "close"] : answer.headers) as string[]);
  response.end(answer.body, answer.encoding ?? "utf8");
}

/** A sender that is still writing cannot read the answer. */
const mostDropped = 64 * 1024 ** 2;

/** The body may still be arriving: a connection closed with unread bytes is reset, and the reset overtakes the answer. */
export function sendEarly(request: IncomingMessage, response: ServerResponse, answer: Answer, end = false): void {
  if (request.complete) {
    send(response, answer, end);
    return;
  }
  if (response.headersSent || response.destroyed) return;
  if (end || isTooMuchToDrop(request)) response.shouldKeepAlive = false;
  response.writeHead(answer.status, answer.headers as string[]);
  response.write(answer.body, answer.encoding ?? "utf8");
  dropBody(request, () => response.end());
}

/** Clients such as curl stop sending then. */
export function isTooMuchToDrop({ headers }: IncomingMessage): boolean {
  return Number(headers["content-length"] ?? 0) > mostDropped;
}

/** Until `server.requestTimeout`. */
export function dropBody(request: IncomingMessage, done: () => void): void {
  let left = mostDropped;
  request.on("data", (piece: Buffer) => {
    left -= piece.length;
    if (left < 0) request.socket.destroy();
  });
  request.once("end", done);
  request.resume();
}
