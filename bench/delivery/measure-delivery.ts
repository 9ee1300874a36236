import { setTimeout as wait } from "node:timers/promises";
import type { EventSet } from "../events.ts";
import { type Latency, latencyOf } from "../load/measure.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import type { Child } from "../process/start-child.ts";
import type { Sunk } from "../servers/sink.ts";
import type { DeliverySide } from "./sides.ts";

export interface Delivered {
  /**
   * All events over the time from the first one sent to the last one delivered: receiving and
   * delivering, to the end.
   */
  readonly perSecond: number;
  /** From sent to delivered, event by event. */
  readonly latency: Latency;
  readonly repeats: number;
}

const longestStallMs = 60_000;

/**
 * Sends all events of a set through a side and waits until each has come out. `rate` null: as fast
 * as they are answered.
 */
export async function measureDelivery(
  load: Child,
  side: DeliverySide,
  set: EventSet,
  { connections, rate }: { connections: number; rate: number | null },
): Promise<Delivered> {
  await side.expect(set);
  const spec: RunSpec = {
    port: side.port,
    limit: set.count,
    connections,
    warmupMs: 0,
    measureMs: null,
    rate,
    serverPid: side.pid,
    keepSentAt: true,
  };
  const result = (await load.ask({ run: spec })) as RunResult;
  if (result.statuses["200"] !== set.count)
    throw new Error(`${side.name}, of ${set.count} events: ${JSON.stringify(result.statuses)}`);
  const sunk = await untilDelivered(side, set);
  const sentAt = result.sentAt as Float64Array;
  const arrivedAt = (await side.sink.ask({ arrivals: set.run })) as Float64Array;
  const times = sentAt.map((sent, sequence) => (arrivedAt[sequence] as number) - sent);
  return {
    perSecond: set.count / ((sunk.lastAt - (sentAt[0] as number)) / 1000),
    latency: latencyOf(times),
    repeats: sunk.requests - sunk.events,
  };
}

async function untilDelivered(side: DeliverySide, { run, count }: EventSet): Promise<Sunk> {
  let before = -1;
  let movedAt = performance.now();
  for (;;) {
    const sunk = (await side.sink.ask({ counts: run })) as Sunk;
    if (sunk.events === count) return sunk;
    if (sunk.events > before) movedAt = performance.now();
    before = sunk.events;
    if (performance.now() - movedAt > longestStallMs)
      throw new Error(`${side.name} delivered ${before} of ${count} and then nothing more`);
    await wait(20);
  }
}
