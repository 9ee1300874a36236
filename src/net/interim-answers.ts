import { Socket } from "node:net";
import type { buildConnector } from "undici";

/** Bounds interim answers (1xx), with which a server could keep the relay busy until the deadline. */
export const mostInterim = 32;

type Parser = { onHeadersComplete(status: number, upgrade: boolean, shouldKeepAlive: boolean): number };

/**
 * undici closes the connection at a `100 Continue` that no request asked for, although the receiver has taken the
 * request. RFC 9110 says to ignore it, so the parser of the socket sees the code 102, which undici does ignore. An internal
 * of undici: nothing public does.
 */
export function takeContinue(socket: Socket): void {
  const key = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "parser");
  const parser = key === undefined ? undefined : (socket as unknown as Record<symbol, Parser | null>)[key];
  if (parser === undefined || parser === null) return;
  const read = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, ...rest) => read.call(parser, status === 100 ? 102 : status, ...rest);
}

/** A connector of which no connection ends at a `100 Continue`. */
export function takingContinue(connect: buildConnector.connector): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...outcome) => {
      callback(...outcome);
      // undici passes no second argument after a failure.
      if (outcome[1] instanceof Socket) takeContinue(outcome[1]);
    });
}
