import { Redis } from "ioredis";
import type { SharedCaps } from "../../../../src/model/shared-caps.ts";
import type { CallOutcome, CallRequest, Permit } from "../../../../src/service/admission.ts";
import { createLimiter, type Limiter, type LimiterOptions } from "../../../../src/service/limits/limiter.ts";
import { createRedisCaps } from "../../../../src/store/redis/shared-limits.ts";
import { createManualClock, type ManualClock } from "../../../harness/manual-clock.ts";

export const answered: CallOutcome = { type: "answered" };
export const send: CallRequest = { cap: "messages", operation: "messages", priority: "send" };
export const run: CallRequest = { cap: "requests", operation: "runs", priority: "send" };
export const ask: CallRequest = { cap: "requests", operation: "reads", priority: "interactive" };
export const poll: CallRequest = { cap: "requests", operation: "reads", priority: "poll" };
const windowMs = 60_000;

/** A process of the account, as far as its caps go. */
export interface Party {
  readonly limiter: Limiter;
  /** Ends it as `kill -9` would: nothing more is asked, told or let go. */
  kill(): void;
  /** What happens to its next steps; `lost`: done, but the answer does not come. */
  fail: "no" | "down" | "lost";
}

/** Processes on one Redis and one clock, which goes on only when nothing is on its way between them. */
export function createParties(url: string) {
  const redis = new Redis(url, { lazyConnect: false, maxRetriesPerRequest: 0 });
  redis.on("error", () => {});
  const onTheWay = new Set<Promise<unknown>>();
  let relays = 0;
  let steps = 0;

  async function rest(): Promise<void> {
    for (let calm = 0; calm < 3; calm += 1) {
      if (onTheWay.size > 0) calm = 0;
      await Promise.allSettled(onTheWay);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** A new account on a new clock, whose Redis knows nothing of it. */
  function newAccount() {
    const clock = createManualClock(1_800_000_000_000, rest);
    const prefix = `relay-${process.pid}-${relays}`;
    relays += 1;
    return { clock, join: (options: Partial<LimiterOptions> = {}) => join(clock, prefix, options) };
  }

  function join(clock: ManualClock, prefix: string, options: Partial<LimiterOptions>): Party {
    const caps = createRedisCaps({ run: (use) => use(redis) }, prefix, "main", "https://messaging.example", clock.now);
    let isDead = false;
    const party = { fail: "no" as Party["fail"] };
    const shared: SharedCaps = {
      async step(request) {
        if (isDead) return new Promise(() => {});
        if (party.fail === "down") throw new Error("down");
        steps += 1;
        const asked = caps.step(request);
        onTheWay.add(asked);
        const answer = await asked.finally(() => onTheWay.delete(asked));
        if (party.fail === "lost") throw new Error("lost");
        return isDead ? await new Promise<never>(() => {}) : answer;
      },
    };
    const own = { ...clock, after: (ms: number, act: () => void) => clock.after(ms, () => isDead || act()) };
    const limiter = createLimiter({ plan: "escala", share: 1, clock: own, shared, ...options } as LimiterOptions);
    const kill = () => {
      isDead = true;
    };
    return Object.assign(party, { limiter, kill });
  }

  return { redis, newAccount, steps: () => steps, close: () => redis.disconnect() };
}

export type Note = { at: number; permit: Permit } | { error: { kind?: string } } | null;

/** Asks, and notes what becomes of it. */
export function enter(clock: ManualClock, { limiter }: Pick<Party, "limiter">, call: CallRequest): { got: Note } {
  const note: { got: Note } = { got: null };
  limiter.enter(call).then(
    (permit) => {
      note.got = { at: clock.now(), permit };
    },
    (error) => {
      note.got = { error };
    },
  );
  return note;
}

export function permitOf(note: { got: Note }): Permit {
  if (note.got === null || !("permit" in note.got)) throw new Error(`was not let go: ${String(note.got?.error)}`);
  return note.got.permit;
}

export const refusalOf = ({ got }: { got: Note }): string | undefined => (got !== null && "error" in got ? got.error.kind : undefined);

/** Somebody who always has more of these calls to make, each `tookMs` long, `many` at once; gives the times at which they went. */
export function keepCalling(
  clock: ManualClock,
  { limiter }: Pick<Party, "limiter">,
  call: CallRequest,
  many: number,
  tookMs = 100,
): number[] {
  const times: number[] = [];
  const next = async (): Promise<void> => {
    for (;;) {
      const permit = await limiter.enter(call);
      times.push(clock.now());
      await new Promise<void>((resolve) => void clock.after(tookMs, resolve));
      permit.settle(answered);
    }
  };
  for (let n = 0; n < many; n += 1) next().catch(() => {});
  return times;
}

/** Most of these times that lie in one window of a minute, wherever it begins. */
export function mostInAWindow(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  let first = 0;
  let most = 0;
  for (const [index, at] of sorted.entries()) {
    while ((sorted[first] as number) <= at - windowMs) first += 1;
    most = Math.max(most, index - first + 1);
  }
  return most;
}
