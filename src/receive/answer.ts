import type { ServerResponse } from "node:http";
import { type ErrorCode, errorCodes } from "../event/errors.ts";

/** A whole answer, made once and sent many times. */
export interface Answer {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

export function jsonAnswer(status: number, value: unknown, extra: readonly string[] = []): Answer {
  const body = Buffer.from(JSON.stringify(value));
  return { status, headers: ["content-type", "application/json", "content-length", String(body.length), ...extra], body };
}

export function errorAnswer(code: ErrorCode, error: string, extra: readonly string[] = []): Answer {
  return jsonAnswer(errorCodes[code].status, { error, code }, extra);
}

/** `end` closes the connection after it: for answers given before the whole request has arrived. */
export function send(response: ServerResponse, answer: Answer, end = false): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(answer.status, (end ? [...answer.headers, "connection", "close"] : answer.headers) as string[]);
  response.end(answer.body);
}
