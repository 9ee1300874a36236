import type { IncomingMessage, ServerResponse } from "node:http";
import { type ErrorCode, errorCodes } from "../event/errors.ts";

/** A whole answer, made once and sent many times. */
export interface Answer {
  readonly status: number;
  readonly headers: readonly string[];
  /** Text where it is text: Node writes it together with the headers, in one system call. */
  readonly body: string | Buffer;
  /** Of a text. One whose characters are bytes is written as they stand, without being measured first. */
  readonly encoding?: "latin1" | "utf8";
}

export function jsonAnswer(status: number, value: unknown, extra: readonly string[] = []): Answer {
  const body = JSON.stringify(value);
  const length = Buffer.byteLength(body);
  const headers = ["content-type", "application/json", "content-length", String(length), ...extra];
  return { status, headers, body, encoding: length === body.length ? "latin1" : "utf8" };
}

export function errorAnswer(code: ErrorCode, error: string, extra: readonly string[] = []): Answer {
  return jsonAnswer(errorCodes[code].status, { error, code }, extra);
}

/** To a request that has arrived whole. `end` closes the connection after it. */
export function send(response: ServerResponse, answer: Answer, end = false): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(answer.status, (end ? [...answer.headers, "connection", "close"] : answer.headers) as string[]);
  response.end(answer.body, answer.encoding ?? "utf8");
}

/**
 * To a request whose body may still be coming in. The sender can read the answer at once, and what is left of the body is
 * read and dropped until it ends or `server.requestTimeout` cuts it off: a connection closed with unread bytes is reset,
 * and a reset overtakes the answer.
 */
export function sendEarly(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  if (request.complete) {
    send(response, answer);
    return;
  }
  if (response.headersSent || response.destroyed) return;
  response.writeHead(answer.status, answer.headers as string[]);
  response.write(answer.body, answer.encoding ?? "utf8");
  request.once("end", () => response.end());
  request.resume();
}
