import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../../test/setup/free-port.ts";
import { startRedis } from "../../test/setup/redis.ts";
import { type EventSet, wamidsOf } from "../events.ts";
import { processorSeconds } from "../load/measure.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import { type Child, startChild } from "../process/start-child.ts";
import { startRelay } from "../process/start-relay.ts";
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
  /** Whether a worker then delivers all. */
  readonly isDelivered: boolean;
}

export interface FilledRedis {
  readonly empty: Look;
  /** After the messages were registered; as `empty` when they were not. */
  readonly registered: Look;
  readonly received: Look;
  readonly delivered: Look | null;
  /** Seconds of a processor that receiving and, from the worker's start on, delivering took of their processes. */
  readonly processSeconds: { readonly receiver: number; readonly worker: number | null };
  /** Bytes of the append-only file once it was written anew. */
  readonly aofAtRest: number;
}

const deliveredWithinMs = 300_000;

/** One Redis of its own, one receiver, and at the end one worker when wanted. Rejects unless every event was stored, and delivered. */
export async function fillRedis({ load, set, connections, listpack, ...wanted }: FillCase): Promise<FilledRedis> {
  await using stack = new AsyncDisposableStack();
  // A rewrite in between would hide what was written to the file.
  const redis = await startRedis({
    appendonly: "everysec",
    args: ["--auto-aof-rewrite-percentage", "0", "--zset-max-listpack-value", String(listpack)],
  });
  stack.defer(() => redis.stop());
  const sinkPort = await freePort();
  const parts = {
    destination: `http://127.0.0.1:${sinkPort}/events`,
    concurrency: connections,
    settings: {
      storage: { driver: "redis", url: redis.url },
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
  const idle = processorSeconds(receiver.pid()) ?? Number.NaN;
  const result = (await load.ask({ run: spec })) as RunResult;
  const receiverSeconds = (processorSeconds(receiver.pid()) ?? Number.NaN) - idle;
  if (result.statuses["200"] !== set.count) throw new Error(`of ${set.count} events: ${JSON.stringify(result.statuses)}`);
  const received = await lookAtRedis(redis.url);

  let delivered: Look | null = null;
  let workerSeconds: number | null = null;
  if (wanted.isDelivered) {
    const sink = await startChild("servers/sink.ts", [], sinkPort);
    stack.defer(() => sink.stop());
    const worker = await startRelay({ ...parts, role: "work" });
    stack.defer(() => worker.stop());
    await untilDelivered(receiver, sink, set);
    delivered = await lookAtRedis(redis.url);
    workerSeconds = processorSeconds(worker.pid());
  }
  const processSeconds = { receiver: receiverSeconds, worker: workerSeconds };
  return { empty, registered, received, delivered, processSeconds, aofAtRest: await rewriteAof(redis.url) };
}

/** Arrived, and settled in Redis too. */
async function untilDelivered(receiver: { get(path: string): Promise<unknown> }, sink: Child, { count }: EventSet): Promise<void> {
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
