import type { Socket } from "node:net";
import { createConnector } from "../../deliver/destinations/connector.ts";

export type Probe =
  /** `skewMs`: how far its clock is ahead of ours; null when it did not say. */
  { readonly reached: true; readonly tookMs: number; readonly skewMs: number | null } | { readonly reached: false; readonly error: string };

/**
 * Connects as a delivery would (name, guard against private addresses, TCP, TLS) and asks for the headers
 * of `/`: no event is sent, and the path of the destination, which may be a secret, is not either.
 */
export function probeDestination(url: string, allowPrivate: boolean, withinMs: number): Promise<Probe> {
  const target = new URL(url);
  const startedAt = performance.now();
  return new Promise((resolve) => {
    let socket: Socket | null = null;
    let connectedAfter: number | null = null;
    const end = (probe: Probe): void => {
      clearTimeout(timer);
      resolve(probe);
      socket?.destroy();
    };
    const reached = (skewMs: number | null): void => end({ reached: true, tookMs: Math.round(connectedAfter ?? 0), skewMs });
    const timer = setTimeout(() => {
      if (connectedAfter !== null) reached(null);
      else end({ reached: false, error: `no connection within ${withinMs / 1000} s` });
    }, withinMs);
    socket = createConnector(target, { allowPrivate })((error, connected) => {
      if (error !== null) {
        end({ reached: false, error: error.message });
        return;
      }
      connectedAfter = performance.now() - startedAt;
      readDate(connected, target.host, reached);
    });
  });
}

/** Gives how far the answer's Date is ahead of now, or null. */
function readDate(socket: Socket, host: string, done: (skewMs: number | null) => void): void {
  let head = "";
  socket.setEncoding("latin1");
  socket.on("data", (chunk) => {
    head += chunk;
    const date = /\r\ndate: *([^\r]+)\r\n/i.exec(head)?.[1];
    // The header has whole seconds: on average it is half a second old.
    if (date !== undefined) done(Number.isNaN(Date.parse(date)) ? null : Date.parse(date) + 500 - Date.now());
    else if (head.includes("\r\n\r\n") || head.length > 16_384) done(null);
  });
  socket.on("close", () => done(null));
  socket.write(`HEAD / HTTP/1.1\r\nhost: ${host}\r\nuser-agent: wamid-relay-doctor\r\nconnection: close\r\n\r\n`);
}
