import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";
import { startRelay } from "./start-relay.ts";

/** Seqs of events that were only accepted, of a relay with the default prefix. */
const unplannedKey = "{relay}:unplanned";
const lookEveryMs = 5;
const longestStallMs = 60_000;
const coldShare = 0.2;

async function countUnplanned(url: string): Promise<number> {
  const redis = new Redis(url);
  try {
    return await redis.llen(unplannedKey);
  } finally {
    redis.disconnect();
  }
}

/**
 * Waits until workers have planned all that was only accepted, while nothing more comes: `total`, or what is there now. Gives
 * events a second, without the first fifth, in which what runs is still being compiled; null when there was nothing to plan.
 */
export async function untilPlanned(url: string, total?: number): Promise<number | null> {
  const redis = new Redis(url);
  try {
    total ??= await redis.llen(unplannedKey);
    if (total === 0) return null;
    let from = { at: performance.now(), left: total };
    let isWarm = false;
    let before = total;
    for (let movedAt = performance.now(); ; await wait(lookEveryMs)) {
      const left = await redis.llen(unplannedKey);
      const at = performance.now();
      if (left === 0) return from.left / ((at - from.at) / 1000);
      if (left < before) movedAt = at;
      before = left;
      if (left === total || (!isWarm && left <= (1 - coldShare) * total)) {
        from = { at, left };
        isWarm = left < total;
      }
      if (at - movedAt > longestStallMs) throw new Error(`of ${total} accepted events ${left} are not planned, and nobody goes on`);
    }
  } finally {
    redis.disconnect();
  }
}

/**
 * A process with role `work`, the real one, plans all that was only accepted, and is ended in order; gives what `untilPlanned`
 * gives. It delivers nothing: one delivery at a time goes to a destination that never answers, and the last is handed back, as
 * if it had never been claimed, when the process ends. So what is planned waits, all of it due.
 */
export async function planAll(url: string): Promise<number | null> {
  // Counted before the worker starts, which may be done before it is looked at.
  const total = await countUnplanned(url);
  if (total === 0) return null;
  await using stack = new AsyncDisposableStack();
  const sockets = new Set<Socket>();
  const silent = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).once("close", () => sockets.delete(socket));
  });
  const { promise: listening, resolve } = Promise.withResolvers<void>();
  silent.listen(0, "127.0.0.1", resolve);
  await listening;
  stack.defer(() => {
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
  const starting = startRelay({
    destination: `http://127.0.0.1:${(silent.address() as AddressInfo).port}/events`,
    concurrency: 1,
    role: "work",
    to: { timeout: "5m" },
    shutdownTimeout: "1ms",
    settings: { storage: { driver: "redis", url, commandTimeout: "30s" } },
  });
  // It plans before it is ready.
  const [worker, perSecond] = await Promise.all([starting, untilPlanned(url, total)]);
  stack.defer(() => worker.stop());
  await worker.end();
  return perSecond;
}
