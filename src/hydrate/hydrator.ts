import type { Clock } from "../model/clock.ts";
import type { HydrationPass, HydrationStore } from "../model/hydration.ts";
import { type HydrationMessages, type PassParts, type PassTally, pauseUntilAborted, runHydrationPass } from "./pass.ts";
import type { HydrateSettings } from "./settings.ts";

interface HydratorHooks extends Pick<PassParts, "onRead" | "onSettled"> {
  finished(pass: HydrationPass, tally: PassTally, tookMs: number): void;
  failed(account: string, error: unknown): void;
}

interface HydratorParts {
  readonly store: HydrationStore;
  readonly messages: HydrationMessages;
  readonly clock: Clock;
  readonly random: () => number;
  readonly hooks: HydratorHooks;
}

const againMs = 10_000;

/**
 * Reads through the API what truncated events may have reported. Makes one pass at a time per account over all waiting
 * events. Later events wait for the next pass, so that a burst costs one or two passes.
 */
export function createHydrator(initial: HydrateSettings, { store, messages, clock, random, hooks }: HydratorParts) {
  let settings = initial;
  const stop = new AbortController();
  const { signal } = stop;
  /** By account. `isWoken`: events may have arrived since the last check. */
  const loops = new Map<string, { isWoken: boolean; ended: Promise<void> }>();

  async function passOnce(account: string): Promise<boolean> {
    const since = await store.waitingSince(account);
    if (since === null) return false;
    await pauseUntilAborted(clock, since + settings.delay - clock.now(), signal);
    if (signal.aborted) return false;
    const startedAt = clock.now();
    const pass = await store.beginPass(account, startedAt);
    if (pass === null) return false;
    const tally = await runHydrationPass(pass, { store, messages, clock, random, settings: () => settings, signal, ...hooks });
    if (tally !== null) hooks.finished(pass, tally, clock.now() - startedAt);
    return true;
  }

  async function run(account: string, loop: { isWoken: boolean }): Promise<void> {
    while (!signal.aborted) {
      loop.isWoken = false;
      try {
        if (!(await passOnce(account)) && !loop.isWoken) break;
      } catch (error) {
        if (signal.aborted) break;
        hooks.failed(account, error);
        await pauseUntilAborted(clock, againMs, signal);
      }
    }
    loops.delete(account);
  }

  function wake(account: string): void {
    const known = loops.get(account);
    if (known !== undefined) known.isWoken = true;
    else if (!signal.aborted) {
      const loop = { isWoken: false, ended: Promise.resolve() };
      loops.set(account, loop);
      loop.ended = run(account, loop);
    }
  }

  return {
    /** Resumes what waited when the relay was stopped. */
    async start(): Promise<void> {
      for (const account of await store.waitingAccounts()) wake(account);
    },
    wake,
    reload(next: HydrateSettings): void {
      settings = next;
    },
    /** Interrupts the passes; resolves when all have ended. */
    async close(): Promise<void> {
      stop.abort();
      await Promise.all([...loops.values()].map(({ ended }) => ended));
    },
  };
}
