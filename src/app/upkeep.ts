import type { Clock } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Swept } from "../store/port.ts";

export interface UpkeepParts {
  readonly clock: Clock;
  /** Goes on with what registrations left parked; gives how many events it released. */
  readonly releaseParked: (limit: number) => Promise<number>;
  readonly expireParked: (limit: number) => Promise<number>;
  readonly sweep: (limit: number) => Promise<Swept>;
  /** The shortest of the times that rows are kept, in ms. */
  readonly shortestKeep: () => number;
  readonly probe: () => Promise<void>;
  /** False while the last write failed: then a probe is due. */
  readonly storing: () => boolean;
  readonly isInPlace: () => MaybePromise<boolean>;
  /** Whether this process, of several, has a duty for the next `forMs`. */
  readonly duty: (name: string, forMs: number) => MaybePromise<boolean>;
  /** Null: nothing is left to be ended while this process lives. */
  readonly endLeftExchanges: (() => Promise<number>) | null;
  readonly swept: (swept: Swept) => void;
  readonly failed: (what: string, error: unknown) => void;
}

/** Most rows of one step. How many it is, the store decides: as many as go into some milliseconds of the writing thread. */
const stepRows = 2_000;
/** When fewer than these were parked too long, no more are due just now. */
const fewRows = 50;
/** Pause between steps, so that upkeep takes a small share of the writer under load. */
const stepPauseMs = 20;
/** The same while parked events are released: their deliveries are late already. */
const releasePauseMs = 5;
/** Pauses between two looks for what is old, and after a failure. */
const passPauseMs = { least: 1_000, most: 60_000, failed: 10_000 };
const expireEveryMs = 500;
const probeEveryMs = 1_000;
const exchangesEveryMs = 10_000;
/** A process that died with a duty is followed by another after this; and how often the others ask for it. */
const dutyMs = { holds: 15_000, askAgain: 5_000 };

/**
 * The slow work beside receiving and delivering: parked events that are released or whose time is up, retention, and a look
 * at the store's health. Each is a chain of small steps with pauses. Returns the end of it.
 */
export function startUpkeep(parts: UpkeepParts): () => void {
  let ended = false;
  const cancels = new Set<() => void>();

  function later(ms: number, run: () => Promise<number>, what: string): void {
    if (ended) return;
    const cancel = parts.clock.after(ms, () => {
      cancels.delete(cancel);
      run().then(
        (next) => later(next, run, what),
        (error: unknown) => {
          // That nothing can be stored is said by the store itself, once.
          const isSaid = error instanceof Error && error.name === "StoreUnavailable";
          if (!ended && !isSaid) parts.failed(what, error);
          later(passPauseMs.failed, run, what);
        },
      );
    });
    cancels.add(cancel);
  }

  /** Done by one process of those that share a store: the same one, as long as it is there. */
  const alone = (what: string, run: () => Promise<number>) => async (): Promise<number> => {
    if (!(await parts.duty(what, dutyMs.holds))) return dutyMs.askAgain;
    const next = await run();
    if (next >= dutyMs.holds) await parts.duty(what, next + dutyMs.holds);
    return next;
  };

  async function parking(): Promise<number> {
    if ((await parts.releaseParked(stepRows)) > 0) return releasePauseMs;
    return (await parts.expireParked(stepRows)) < fewRows ? expireEveryMs : stepPauseMs;
  }

  async function sweep(): Promise<number> {
    const swept = await parts.sweep(stepRows);
    parts.swept(swept);
    if (!swept.done) return stepPauseMs;
    return Math.min(passPauseMs.most, Math.max(passPauseMs.least, parts.shortestKeep()));
  }

  async function probe(): Promise<number> {
    if ((await parts.isInPlace()) && !parts.storing()) await parts.probe().catch(() => {});
    return probeEveryMs;
  }

  async function endLeftExchanges(): Promise<number> {
    await parts.endLeftExchanges?.();
    return exchangesEveryMs;
  }

  later(expireEveryMs, alone("parking", parking), "parking");
  later(stepPauseMs, alone("retention", sweep), "retention");
  if (parts.endLeftExchanges !== null) later(exchangesEveryMs, alone("exchanges", endLeftExchanges), "ending exchanges");
  later(probeEveryMs, probe, "store probe");

  return () => {
    ended = true;
    for (const cancel of cancels) cancel();
  };
}
