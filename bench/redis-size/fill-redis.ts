import { setTimeout as wait } from "node:timers/promises";
import { startRedis } from "../../test/setup/redis.ts";
import { type EventSet, wamidsOf } from "../events.ts";
import { processorSeconds } from "../load/measure.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import { untilPlanned } from "../process/plan-all.ts";
import { type Child, startChild } from "../process/start-child.ts";
import { type Relay, startRelay } from "../process/start-relay.ts";
import { redisStorage } from "../scale/fill-sides.ts";
import type { Sunk } from "../servers/sink.ts";
import { type Look, lookAtRedis, rewriteAof } from "./look.ts";

export interface FillCase {
  readonly load: Child;
  readonly set: EventSet;
  readonly connections: number;
  /** Redis' `zset-max-listpack-value`. */
  readonly listpack: number;
  /** Whether the messages are registered before their events come. */
  readonly isRegistered: boolean;
  /** Whether a route wants events of registered messages. */
  readonly isRouted: boolean;
  /** Whether the worker that plans all then delivers it. */
  readonly isDelivered: boolean;
}

export interface FilledRedis {
  readonly empty: Look;
  /** After the messages were registered; as `empty` when they were not. */
  readonly registered: Look;
  /** After a receiver has taken all, while nobody works. */
  readonly accepted: Look;
  readonly planned: Look;
  readonly delivered: Look | null;
  /** Seconds of a processor that each took of the process that did it; planning with the worker's start. */
  readonly processSeconds: { readonly accepting: number; readonly planning: number; readonly delivering: number | null };
  /** Bytes of the append-only file once it was written anew. */
  readonly aofAtRest: number;
}

const deliveredWithinMs = 300_000;

/**
 * One Redis of its own, one receiver, and after it one worker, which plans while the destination answers nothing, and then
 * delivers when wanted. Rejects unless every event was stored, planned, and delivered.
 */
export async function fillRedis({ load, set, connections, listpack, ...wanted }: FillCase): Promise<FilledRedis> {
  await using stack = new AsyncDisposableStack();
  // A rewrite in between would hide what was written to the file.
  const redis = await startRedis({
    appendonly: "everysec",
    args: ["--auto-aof-rewrite-percentage", "0", "--zset-max-listpack-value", String(listpack)],
  });
  stack.defer(() => redis.stop());
  const sink = await startChild("servers/sink.ts", ["0", "held"]);
  stack.defer(() => sink.stop());
  const parts = {
    destination: `http://127.0.0.1:${sink.port}/events`,
    concurrency: connections,
    to: { timeout: "5m" },
    settings: {
      ...redisStorage(redis),
      tracking: { unknown: "park", parkFor: "1d" },
      ...(wanted.isRouted ? {} : { routes: [] }),
    },
  };
  const receiver = await startRelay({ ...parts, role: "receive" });
  stack.defer(() => receiver.stop());

  const empty = await lookAtRedis(redis.url);
  if (wanted.isRegistered) await receiver.register(wamidsOf(set));
  const registered = await lookAtRedis(redis.url);

  await load.ask({ prepare: set });
  const spec: RunSpec = {
    port: receiver.port,
    limit: set.count,
    connections,
    warmupMs: 0,
    measureMs: null,
    rate: null,
    serverPid: receiver.pid(),
    keepSentAt: false,
  };
  const idle = secondsOf(receiver);
  const result = (await load.ask({ run: spec })) as RunResult;
  const accepting = secondsOf(receiver) - idle;
  if (result.statuses["200"] !== set.count) throw new Error(`of ${set.count} events: ${JSON.stringify(result.statuses)}`);
  const accepted = await lookAtRedis(redis.url);

  // It plans before it is ready.
  const [worker] = await Promise.all([startRelay({ ...parts, role: "work" }), untilPlanned(redis.url)]);
  stack.defer(() => worker.stop());
  const planning = secondsOf(worker);
  const planned = await lookAtRedis(redis.url);

  let delivered: Look | null = null;
  let delivering: number | null = null;
  if (wanted.isDelivered) {
    await sink.ask({ open: true });
    await untilDelivered(receiver, sink, set);
    delivered = await lookAtRedis(redis.url);
    delivering = secondsOf(worker) - planning;
  }
  const { accepted: left = 0, ...final } = await receiver.dispositions();
  const stored = Object.values(final).reduce((sum, count) => sum + count, 0);
  if (left > 0 || stored !== set.count) throw new Error(`of ${set.count} events ${stored} are planned, and ${left} are not`);
  const processSeconds = { accepting, planning, delivering };
  return { empty, registered, accepted, planned, delivered, processSeconds, aofAtRest: await rewriteAof(redis.url) };
}

const secondsOf = (relay: Relay): number => processorSeconds(relay.pid()) ?? Number.NaN;

/** Arrived, and settled in Redis too. */
async function untilDelivered(receiver: Relay, sink: Child, { count }: EventSet): Promise<void> {
  const deadline = performance.now() + deliveredWithinMs;
  for (;;) {
    const { events } = (await sink.ask({ counts: null })) as Sunk;
    if (events === count) {
      const { deliveries } = (await receiver.get("/v1/stats")) as { deliveries: { delivered: number } };
      if (deliveries.delivered === count) return;
    }
    if (performance.now() > deadline) throw new Error(`of ${count} events only ${events} were delivered`);
    await wait(100);
  }
}
