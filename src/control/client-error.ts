import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type ErrorCode, errorCodes } from "../event/errors.ts";
import { mayLast } from "./long-request.ts";

const answers: Readonly<Record<string, readonly [code: ErrorCode, error: string]>> = {
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "the request did not arrive whole in time"],
  HPE_HEADER_OVERFLOW: ["headers_too_large", "request line and headers are too large"],
};
const malformed = ["bad_request", "this is no valid HTTP request"] as const;
const reasons: Readonly<Record<number, string>> = { 400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large" };

/**
 * What Node's parser refuses never becomes a request, so it is answered on the socket itself, in the
 * shape of all errors, and the connection is closed.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  // Of a connection that web-server.ts stopped reading: it ends with its last answer.
  if (error.code === "HPE_CB_HEADERS_COMPLETE") return;
  if (error.code === "ECONNRESET" || socket.destroyed) return;
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT" && mayLast(socket)) return;
  if (socket.writable && currentAnswer(socket)?.headersSent !== true) writeError(socket, answers[error.code ?? ""] ?? malformed);
  socket.destroy(error);
}

/** To CONNECT, which Node takes out of the parser without an answer. */
export function answerMalformed(socket: Socket): void {
  // In the middle of an earlier answer it would corrupt that one.
  if (socket.writable && currentAnswer(socket) === null) writeError(socket, malformed);
  socket.destroySoon();
}

/** Under Node's own name; its default handler checks the same (_http_server.js, socketOnError). */
function currentAnswer(socket: Socket): ServerResponse | null {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

function writeError(socket: Socket, [code, text]: readonly [code: ErrorCode, error: string]): void {
  const { status } = errorCodes[code];
  const body = JSON.stringify({ error: text, code });
  socket.write(
    `HTTP/1.1 ${status} ${reasons[status]}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}
