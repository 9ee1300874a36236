import { setTimeout as wait } from "node:timers/promises";
import { residentMiB } from "../load/measure.ts";
import { sharedClock } from "../load/run.ts";
import { startChild } from "../process/start-child.ts";
import type { Relay } from "../process/start-relay.ts";
import type { Sunk } from "../servers/sink.ts";

export interface DrainOptions {
  readonly relay: Relay;
  /** Where the destination comes back. */
  readonly sinkPort: number;
  readonly deliveries: number;
  readonly stack: AsyncDisposableStack;
  readonly say: (line: string) => void;
}

export interface Drained {
  /** From the first delivery to the last. */
  readonly perSecond: number;
  /** From the destination's coming back to the first delivery. */
  readonly firstAfterMs: number;
  /** MiB, a few times a second. */
  readonly residentMiB: readonly number[];
  /** Deliveries that came more than once: at least once is promised, once is hoped for. */
  readonly repeats: number;
}

const longestStallMs = 60_000;

/**
 * Brings the destination back and waits until every event has come. Rejects when nothing comes for
 * a minute.
 */
export async function drain({
  relay,
  sinkPort,
  deliveries,
  stack,
  say,
}: DrainOptions): Promise<Drained> {
  const sink = await startChild("servers/sink.ts", [], sinkPort);
  stack.defer(() => sink.stop());
  const backAt = sharedClock();
  const resident: number[] = [];
  let movedAt = backAt;
  let before = 0;
  for (;;) {
    const sunk = (await sink.ask({ counts: null })) as Sunk;
    resident.push(residentMiB(relay.pid()) ?? Number.NaN);
    const tenth = Math.floor((sunk.events / deliveries) * 10);
    if (tenth > Math.floor((before / deliveries) * 10))
      say(`${sunk.events} delivered, ${Math.round(resident.at(-1) as number)} MiB resident`);
    if (sunk.events > before) movedAt = sharedClock();
    before = sunk.events;
    if (sunk.events === deliveries) {
      return {
        perSecond: (deliveries - 1) / ((sunk.lastAt - sunk.firstAt) / 1000),
        firstAfterMs: sunk.firstAt - backAt,
        residentMiB: resident,
        repeats: sunk.requests - sunk.events,
      };
    }
    if (sharedClock() - movedAt > longestStallMs)
      throw new Error(`draining stands still: ${sunk.events} of ${deliveries} were delivered`);
    await wait(100);
  }
}
