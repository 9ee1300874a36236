import type { AttemptError } from "../../event/delivery.ts";
import { ConnectionFailed } from "./connection-failed.ts";

/** Why an attempt brought no answer, and the same for the operator's eyes. */
export interface AttemptFailure {
  readonly error: AttemptError;
  readonly text: string;
}

const protocolCodes = new Set(["UND_ERR_HEADERS_OVERFLOW", "UND_ERR_INVALID_ARG", "UND_ERR_NOT_SUPPORTED"]);
/** What undici says of an answer that came unasked (100) or that leaves HTTP (101). */
const protocolMessages = new Set(["bad response", "bad upgrade"]);

/** Reads an error of undici or of the connector. */
export function attemptFailure(error: Error): AttemptFailure {
  if (error instanceof ConnectionFailed) return { error: error.error, text: error.message };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error.name === "HTTPParserError" || protocolCodes.has(code) || protocolMessages.has(error.message)) {
    return { error: "protocol", text: `the answer is not valid HTTP/1.1: ${error.message.slice(0, 300)}` };
  }
  // With TLS 1.3 a server refuses a missing client certificate only after the handshake.
  if (/^ERR_(SSL|TLS)/.test(code)) return { error: "tls", text: `TLS failed (${code}): ${error.message.slice(0, 300)}` };
  return { error: "reset", text: `the connection was closed before the answer was complete (${code === "" ? error.message : code})` };
}
