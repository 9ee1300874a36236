import type { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { FastifyReply } from "fastify";

const lasting = new WeakSet<Socket>();

/**
 * Lets a request arrive for longer than `server.requestTimeout`, which Node applies to every request of a server. The
 * caller must end a request that falls silent. This function closes a connection that moves no byte in either direction
 * for twice `longestSilenceMs` (the client does not read the answer), and one whose request continues for `longestSilenceMs` after
 * the answer.
 */
export function allowLongRequest(request: IncomingMessage, response: ServerResponse, longestSilenceMs: number): void {
  const { socket } = request;
  // A request made by `inject` has none.
  if (!(socket instanceof Socket)) return;
  lasting.add(socket);
  socket.setTimeout(2 * longestSilenceMs);
  response.once("close", () => {
    lasting.delete(socket);
    socket.setTimeout(0);
    if (request.complete || socket.destroyed) return;
    // Read and drop the rest. Closing a connection with unread bytes resets it, and the reset overtakes the answer.
    request.resume();
    const late = setTimeout(() => socket.destroy(), longestSilenceMs);
    request.once("end", () => clearTimeout(late));
    socket.once("close", () => clearTimeout(late));
  });
}

/** For when Node reports that a request timed out. Node reports once and leaves closing to the 'clientError' handler. */
export function isLongRequest(socket: Socket): boolean {
  return lasting.has(socket);
}

/** Aborted when the connection closes before the answer is sent. */
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableEnded) gone.abort();
  });
  return gone.signal;
}

/** `null`: the body has ended. */
export type Chunk = Buffer | null | "stalled" | "stopped" | "disconnected";

/**
 * Everything that arrived of a body since the last call, waiting up to `withinMs`. The stream stays open in every case,
 * so that an answer can still be sent; leaving a `for await` would destroy the connection.
 */
export async function nextChunk(body: Readable, withinMs: number, stop: AbortSignal): Promise<Chunk> {
  let isLate = false;
  let wake = (): void => {};
  const timer = setTimeout(() => {
    isLate = true;
    wake();
  }, withinMs);
  const events = ["readable", "end", "close", "error"];
  const woken = () => wake();
  for (const event of events) body.on(event, woken);
  stop.addEventListener("abort", woken);
  try {
    for (;;) {
      if (stop.aborted) return "stopped";
      const chunk = body.read() as Buffer | null;
      if (chunk !== null) return chunk;
      if (body.readableEnded) return null;
      if (body.destroyed) return "disconnected";
      if (isLate) return "stalled";
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    clearTimeout(timer);
    for (const event of events) body.off(event, woken);
    stop.removeEventListener("abort", woken);
  }
}
