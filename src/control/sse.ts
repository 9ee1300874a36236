import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply } from "fastify";
import { type Clock, pause } from "../model/clock.ts";
import { RelayError } from "../model/errors.ts";
import type { Context } from "./endpoint.ts";

/** Bytes buffered for a connection, beside the message being written. */
const bufferedBytes = 64 * 1024;
/** While stopping, for a reader that does not take even the `bye`. */
const byeWithinMs = 500;

export interface StreamPort extends Clock {
  /** Calls `wake` for each event stored from now on, until the returned function is called. */
  onStored(wake: () => void): () => void;
}

export interface StreamEnds {
  /** Whether the token or session is still valid: tokens can change while a client is connected. */
  readonly allowed: () => Promise<boolean>;
  readonly stopping: AbortSignal;
  readonly gone: AbortSignal;
}

/** The open streams of one endpoint. They end first, because they would keep `app` from closing. */
export function createStreams(app: FastifyInstance, port: StreamPort) {
  const stopping = new AbortController();
  const open = new Set<Readable>();
  app.addHook("preClose", async () => {
    stopping.abort();
    port.after(byeWithinMs, () => {
      for (const stream of open) stream.destroy();
    });
  });
  return {
    size: () => open.size,
    send(
      { request, reply, isAllowed }: Context,
      streamOf: (ends: StreamEnds) => AsyncIterable<string>,
      closed: () => void = () => {},
    ): FastifyReply {
      const gone = new AbortController();
      const ends = { allowed: isAllowed, stopping: stopping.signal, gone: gone.signal };
      const stream = Readable.from(streamOf(ends), {
        objectMode: false,
        highWaterMark: bufferedBytes,
      });
      open.add(stream);
      const end = (): void => {
        gone.abort();
        open.delete(stream);
        closed();
      };
      // A client that has disconnected already emits no more events.
      if (request.raw.socket.destroyed) end();
      else reply.raw.once("close", end);
      request.raw.socket.setNoDelay?.(true);
      return reply
        .headers({
          "content-type": "text/event-stream",
          "cache-control": "no-store, no-transform",
          "x-accel-buffering": "no",
        })
        .send(stream);
    },
    refuseWhileStopping(): void {
      if (stopping.signal.aborted)
        throw new RelayError("shutting_down", "the relay is stopping", undefined, {
          retryAfterMs: 5_000,
        });
    },
  };
}

export function noRoom(): RelayError {
  return new RelayError(
    "too_many_listeners",
    "the relay has no room for another listener",
    undefined,
    { retryAfterMs: 30_000 },
  );
}

/** What a turn of a stream sends, and when the next one begins. Times are unix ms. */
interface Turn {
  readonly text: string;
  /** The stream ends for this reason. */
  readonly bye?: string;
  /** Unless an event is stored before. */
  readonly nextAt: number;
  readonly notBefore?: number;
}

/**
 * Turn after turn, until the client disconnects. A turn begins once the text of the one before was
 * taken, so a slow reader costs one text of memory.
 */
export async function* streamTurns(
  port: StreamPort,
  { stopping, gone }: Pick<StreamEnds, "stopping" | "gone">,
  turn: () => Promise<Turn>,
): AsyncGenerator<string, void> {
  const isOver = (): boolean => stopping.aborted || gone.aborted;
  while (!gone.aborted) {
    const woken = new AbortController();
    const wake = (): void => woken.abort();
    // Before the turn reads, to miss no event.
    const leave = port.onStored(wake);
    for (const signal of [stopping, gone]) signal.addEventListener("abort", wake);
    try {
      const {
        text,
        bye,
        nextAt,
        notBefore = 0,
      } = stopping.aborted ? { text: "", bye: "the relay is stopping", nextAt: 0 } : await turn();
      if (text !== "") yield text;
      if (bye !== undefined) {
        yield message("bye", { reason: bye }, null);
        return;
      }
      const waitMs = nextAt - port.now();
      if (waitMs > 0 && !isOver()) await pause(port, waitMs, woken.signal).catch(() => {});
      const restMs = notBefore - port.now();
      if (restMs > 0 && !isOver())
        await new Promise<void>((resolve) => void port.after(restMs, resolve));
    } finally {
      leave();
      for (const signal of [stopping, gone]) signal.removeEventListener("abort", wake);
    }
  }
}

export function message(event: string, data: unknown, id: number | null): string {
  return `${id === null ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
