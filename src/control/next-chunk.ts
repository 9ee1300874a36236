import type { Readable } from "node:stream";

/** `null`: the body has ended. */
export type Chunk = Buffer | null | "stalled" | "stopped" | "gone";

/**
 * All that has arrived of a body since the last call, waited for up to `withinMs`. Whatever comes of it the stream
 * stays as it is, so that an answer can still be sent (a `for await` that is left destroys the connection).
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
      if (body.destroyed) return "gone";
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
