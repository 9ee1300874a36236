import { setTimeout as wait } from "node:timers/promises";
import { type RedisOptions, startRedis } from "../../test/setup/redis.ts";
import type { EventSet } from "../events.ts";
import { processorSeconds } from "../load/measure.ts";
import { type Child, startChild } from "../process/start-child.ts";
import { startRelay } from "../process/start-relay.ts";
import type { Sunk } from "../servers/sink.ts";
import { type Filled, fillQueue, fillRelay, redisStorage } from "./fill-sides.ts";

/**
 * What waits when the workers start. `relay`: deliveries, planned; `relay+planning`: events that were only accepted, which
 * the workers plan and deliver; `bullmq`: jobs.
 */
export type DrainSide = "relay" | "relay+planning" | "bullmq";

export interface DrainSpec {
  readonly side: DrainSide;
  readonly workers: number;
  /** Deliveries in flight at once, of each worker. */
  readonly concurrency: number;
  /** How long the destination takes to answer. */
  readonly delayMs: number;
  readonly appendonly: NonNullable<RedisOptions["appendonly"]>;
}

export interface Drained {
  /** From the first arrival to the last. */
  readonly perSecond: number;
  /**
   * Without the first fifth, in which what runs is still being compiled, and what was claimed ahead comes at once. Where
   * workers plan, all: planning runs ahead of delivering, and most of it would be left out.
   */
  readonly warmPerSecond: number;
  /** Processor seconds a second of that part, of all workers together, and microseconds of each delivery. */
  readonly cores: { readonly workers: number; readonly redis: number; readonly sink: number };
  readonly micros: { readonly workers: number; readonly redis: number; readonly sink: number };
  /** Deliveries that came more than once. */
  readonly repeats: number;
}

const longestStallMs = 60_000;
const coldShare = 0.2;

interface Worker {
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * On a Redis of its own: all events are there before the workers start on them, and the destination answers nothing before
 * each of them is ready. Rejects unless every event arrives.
 */
export async function drain(spec: DrainSpec, load: Child, set: EventSet): Promise<Drained> {
  await using stack = new AsyncDisposableStack();
  const sink = await startChild("servers/sink.ts", [String(spec.delayMs), "held"]);
  stack.defer(() => sink.stop());
  const redis = await startRedis({ appendonly: spec.appendonly });
  stack.defer(() => redis.stop());
  const filled: Filled = { redis, destination: `http://127.0.0.1:${sink.port}/events`, concurrency: spec.concurrency };
  const isPlanning = spec.side === "relay+planning";
  const startAll = () => Promise.all(Array.from({ length: spec.workers }, () => startWorker(spec.side, filled, stack)));
  // Workers that were started on events would plan many before they are ready: these are, and stand still until all is there.
  const waiting = isPlanning ? await startAll() : [];
  for (const { pid } of waiting) process.kill(pid, "SIGSTOP");
  if (spec.side === "bullmq") await fillQueue(filled, set);
  else await fillRelay(filled, load, set, { isPlanned: !isPlanning });
  const workers = isPlanning ? waiting : await startAll();
  const pids = { workers: workers.map(({ pid }) => pid), redis: [redis.pid], sink: [sink.pid] };
  const parts = ["workers", "redis", "sink"] as const;
  const used = () => parts.map((part) => pids[part].reduce((sum, pid) => sum + (processorSeconds(pid) ?? Number.NaN), 0));

  const cold = isPlanning ? 0 : Math.floor(set.count * coldShare);
  await sink.ask({ open: true });
  const warm = await untilArrived(sink, set.run, cold);
  const [warmAt, before] = [performance.now(), used()];
  for (const { pid } of waiting) process.kill(pid, "SIGCONT");
  const end = await untilArrived(sink, set.run, set.count);
  const seconds = (performance.now() - warmAt) / 1000;
  const perPart = used().map((after, at) => after - (before[at] as number));

  const arrivals = ((await sink.ask({ arrivals: set.run })) as Float64Array).subarray(0, set.count).toSorted();
  const rate = (from: number) => ((set.count - 1 - from) / ((arrivals[set.count - 1] as number) - (arrivals[from] as number))) * 1000;
  const shared = (by: number) => Object.fromEntries(parts.map((part, at) => [part, (perPart[at] as number) / by]));
  return {
    perSecond: rate(0),
    warmPerSecond: rate(cold),
    cores: shared(seconds) as Drained["cores"],
    micros: shared((end.events - warm.events) / 1e6) as Drained["micros"],
    repeats: end.requests - end.events,
  };
}

async function startWorker(side: DrainSide, { redis, destination, concurrency }: Filled, stack: AsyncDisposableStack): Promise<Worker> {
  if (side === "bullmq") {
    const worker = await startChild("servers/bullmq-worker.ts", [redis.url, String(concurrency)]);
    stack.defer(() => worker.stop());
    return worker;
  }
  const relay = await startRelay({ destination, concurrency, role: "work", settings: redisStorage(redis) });
  stack.defer(() => relay.stop());
  return { pid: relay.pid(), stop: relay.stop };
}

/** Resolves when so many different events have come. */
async function untilArrived(sink: Child, run: number, count: number): Promise<Sunk> {
  let before = -1;
  let movedAt = performance.now();
  for (;;) {
    const sunk = (await sink.ask({ counts: run })) as Sunk;
    if (sunk.events >= count) return sunk;
    if (sunk.events > before) movedAt = performance.now();
    before = sunk.events;
    if (performance.now() - movedAt > longestStallMs) throw new Error(`${before} of ${count} arrived and then nothing more`);
    await wait(10);
  }
}
