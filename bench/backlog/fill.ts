import { eventAt, wamidsOf } from "../events.ts";
import { quantile, residentMiB } from "../load/measure.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import type { Child } from "../process/start-child.ts";
import type { Relay } from "../process/start-relay.ts";

export interface FillOptions {
  readonly relay: Relay;
  readonly load: Child;
  readonly deliveries: number;
  readonly connections: number;
  readonly say: (line: string) => void;
}

export interface Filled {
  /** Events a second in the first slices and in the last. */
  readonly startPerSecond: number;
  readonly endPerSecond: number;
  /** MiB after each slice. */
  readonly residentMiB: readonly number[];
  /** Database and write-ahead log in the end, registered messages included. */
  readonly diskBytes: number;
  readonly bodyBytes: number;
}

/** The first slice warms the relay up and is not counted. */
const slices = 20;
const counted = 3;

/**
 * Posts events slice by slice, each with its messages registered first, until that many deliveries
 * wait. One run number a slice, from 0 on.
 */
export async function fill({
  relay,
  load,
  deliveries,
  connections,
  say,
}: FillOptions): Promise<Filled> {
  const rates: number[] = [];
  const resident: number[] = [];
  let done = 0;
  for (let slice = 0; slice < slices; slice += 1) {
    const count = Math.floor((deliveries * (slice + 1)) / slices) - done;
    const set = { run: slice, count };
    await load.ask({ prepare: set });
    await relay.register(wamidsOf(set));
    const spec: RunSpec = {
      port: relay.port,
      limit: count,
      connections,
      warmupMs: 0,
      measureMs: null,
      rate: null,
      serverPid: relay.pid(),
      keepSentAt: false,
    };
    const result = (await load.ask({ run: spec })) as RunResult;
    if (result.statuses["200"] !== count)
      throw new Error(`of ${count} events: ${JSON.stringify(result.statuses)}`);
    done += count;
    rates.push(result.perSecond);
    resident.push(residentMiB(relay.pid()) ?? Number.NaN);
    say(
      `${done} waiting: ${Math.round(result.perSecond)}/s, p99 ${result.latency.p99.toFixed(2)} ms, ${Math.round(resident.at(-1) as number)} MiB resident`,
    );
  }
  const dispositions = await relay.dispositions();
  if (dispositions["routed"] !== deliveries)
    throw new Error(`not every event was routed: ${JSON.stringify(dispositions)}`);
  return {
    startPerSecond: median(rates.slice(1, 1 + counted)),
    endPerSecond: median(rates.slice(-counted)),
    residentMiB: resident,
    diskBytes: await relay.diskBytes(),
    bodyBytes: eventAt(0, 0).body.length,
  };
}

function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  );
}
