import {
  type BudgetAnswer,
  type Budgets,
  type Limits,
  limitsFrom,
  type SlotKind,
  type StoredStop,
  type StoredStops,
  slotKinds,
} from "../../model/budget.ts";
import type { Clock, SteadyTime } from "../../model/clock.ts";
import { uuidv7 } from "../../model/ids.ts";
import { type CallCap, type CallOperation, callOperations } from "../endpoints.ts";
import type { Caps } from "./caps.ts";
import {
  createAlarm,
  createSlots,
  graceMs,
  isPaced,
  limitsOf,
  slotKindsOf,
  tookMs,
  windowMs,
} from "./slots.ts";
import { type QuotaReason, quotaReasons, type Stops } from "./stops.ts";

export type AccountPart = ReturnType<typeof createBudgetedAccount>;

export interface InFlight {
  readonly all: number;
  readonly polls: number;
}

export interface BudgetParts {
  readonly stops: Pick<Stops, "shared" | "adopt">;
  readonly budgets: Budgets;
  readonly clock: Clock;
  readonly time: SteadyTime;
  readonly caps: Caps;
  readonly plan: () => string;
  readonly waiting: (operation: CallOperation) => number;
  readonly mostInFlight: () => InFlight;
  readonly changed: () => void;
  readonly lost: () => void;
}

/**
 * In all processes together, with those refused because of the key within the last minute: 20 of
 * those block an address.
 */
const atOnce = { calls: 16, polling: 12 };
/** A dead process's part is lost to others until then, and for two minutes more. */
const leaseMs = 15_000;
/** Less than the lease, because clocks do not run alike. */
const trustedMs = 14_000;
const beatMs = 3_000;
/** Until then, calls are refused at once when there is no part. */
const retryMs = 1_000;
/** Until the next demand, after one that was met or not. */
const askAgainMs = { met: 100, unmet: 1_000 };
const freshMs = 5_000;

const noLimits = limitsFrom(() => 0);
const least = (a: Limits, b: Limits): Limits => limitsFrom((kind) => Math.min(a[kind], b[kind]));

/**
 * An account whose caps are divided among processes. Each keeps to its part as a lone process keeps
 * to the caps.
 *
 * **Why the caps hold.** A part is stored before it is used and reduced before that is stored, and
 * all parts together are at most the cap. So the calls of any window hold slots at once, and those
 * are at most the cap (`limiter.ts`). A process that could not renew its part stops in time, and
 * its part is free only when its calls count no longer.
 */
export function createBudgetedAccount(parts: BudgetParts) {
  const { stops, budgets, clock, time, plan, waiting, changed, lost } = parts;
  const process = uuidv7(clock.now());
  const slots = createSlots(noLimits);
  const shared = createSharedStops(stops, clock, time);
  const alarm = createAlarm(clock, time, () => void step());
  let caps = parts.caps;
  let limits = noLimits;
  let othersUsed = noLimits;
  /** Steady ms. */
  let trustedUntil = Number.NEGATIVE_INFINITY;
  let steppedAt = Number.NEGATIVE_INFINITY;
  let knownFrom = Number.NEGATIVE_INFINITY;
  let askFrom = Number.NEGATIVE_INFINITY;
  let running: Promise<boolean> = Promise.resolve(true);
  let next: Promise<boolean> | null = null;
  let isStepping = false;
  let isClosed = false;

  const isTrusted = (): boolean => time.now() < trustedUntil;
  const capLimits = (): Limits => ({ ...limitsOf(caps), ...atOnce });
  const applyLimits = (): void =>
    slots.setLimits(isTrusted() ? least(limits, capLimits()) : noLimits, time.now());

  /**
   * A step that includes all changes of this turn of the event loop. One runs at a time. False: it
   * failed.
   */
  function step(): Promise<boolean> {
    next ??= running.then(() => {
      next = null;
      isStepping = true;
      running = stepOnce();
      return running;
    });
    return next;
  }

  async function stepOnce(): Promise<boolean> {
    alarm.cancel();
    const at = time.now();
    const used = slots.used(at);
    const total = capLimits();
    const waits = limitsFrom((kind) =>
      callOperations.reduce(
        (sum, one) => sum + (slotKindsOf(one).includes(kind) ? waiting(one) : 0),
        0,
      ),
    );
    const demand = isClosed
      ? { need: noLimits, want: noLimits }
      : demandOf({ used, total, limits, waits, now: slots.inFlight(), most: parts.mostInFlight() });
    const keep = keepOf(used, limits, total, demand.need);
    limits = isTrusted() && !isClosed ? least(limits, keep) : noLimits;
    applyLimits();
    const { taken, news } = shared.request(plan());
    let answer: BudgetAnswer;
    try {
      const spans = isClosed
        ? { leaseMs: 0, countsMs: graceMs + windowMs }
        : { leaseMs, countsMs: tookMs + graceMs + windowMs };
      answer = await budgets.step({ process, caps: total, used, keep, ...demand, ...spans, news });
    } catch {
      isStepping = false;
      knownFrom = time.now() + retryMs;
      applyLimits();
      if (!isTrusted()) lost();
      if (isBusy()) alarm.set(knownFrom);
      return false;
    }
    isStepping = false;
    const wasMet = slotKinds.every((kind) => answer.limits[kind] >= demand.need[kind]);
    limits = answer.limits;
    othersUsed = answer.othersUsed;
    steppedAt = time.now();
    trustedUntil = isClosed ? Number.NEGATIVE_INFINITY : at + trustedMs;
    askFrom = steppedAt + (wasMet ? askAgainMs.met : askAgainMs.unmet);
    shared.adopt(taken, answer.stops, plan());
    applyLimits();
    changed();
    if (isBusy()) alarm.set(steppedAt + beatMs);
    return true;
  }

  const isBusy = (): boolean =>
    !isClosed &&
    (shared.hasNews() ||
      slotKinds.some((kind) => limits[kind] > 0) ||
      callOperations.some((operation) => waiting(operation) > 0));

  function ask(): void {
    if (next !== null || isStepping) return;
    if (time.now() < askFrom) alarm.set(askFrom);
    else if (time.now() >= knownFrom) void step();
  }

  return {
    ...slots,
    readyAt(operation: CallOperation, now: number): number {
      if (!isTrusted()) {
        ask();
        return Number.POSITIVE_INFINITY;
      }
      const at = slots.readyAt(operation, now);
      if (at > now) ask();
      return at;
    },
    setCaps(to: Caps): void {
      caps = to;
      applyLimits();
    },
    /** By all processes. */
    usedOf: (cap: CallCap, now: number): number => slots.used(now)[cap] + othersUsed[cap],
    /** The stops changed. */
    learned(): void {
      if (shared.hasNews()) void step();
    },
    /** False: calls must not wait. */
    isKnown: () => isTrusted() || time.now() >= knownFrom,
    refresh(): void {
      if (next === null && time.now() - steppedAt >= freshMs && time.now() >= knownFrom)
        void step();
    },
    /**
     * Resolves once what this process learned is stored and what others stored is known; false: it
     * may not be.
     */
    stored: step,
    close(): void {
      isClosed = true;
      alarm.cancel();
      if (steppedAt > Number.NEGATIVE_INFINITY) void step();
    },
  };
}

/**
 * Stops of quotas, as the processes report them to each other. News are what differs from what is
 * known to be stored.
 */
function createSharedStops(stops: BudgetParts["stops"], clock: Clock, time: SteadyTime) {
  const textOf = (reason: QuotaReason): string => JSON.stringify(stops.shared(reason));
  const stored = new Map(quotaReasons.map((reason) => [reason, textOf(reason)]));
  const news = (): QuotaReason[] =>
    quotaReasons.filter((reason) => stored.get(reason) !== textOf(reason));

  return {
    hasNews: () => news().length > 0,
    /** Of a step. `taken`: what it stores if it succeeds. */
    request(plan: string) {
      const taken = new Map(news().map((reason) => [reason, textOf(reason)]));
      const stopOf = (reason: QuotaReason): StoredStop | null => {
        const stop = stops.shared(reason);
        return stop && { ...stop, until: time.toUnix(stop.until) };
      };
      const sent = Object.fromEntries([...taken.keys()].map((reason) => [reason, stopOf(reason)]));
      return { taken, news: taken.size === 0 ? null : { plan, stops: sent } };
    },
    /** Takes over the stored stops of which this process has no news. */
    adopt(taken: ReadonlyMap<QuotaReason, string>, known: StoredStops, plan: string): void {
      for (const [reason, text] of taken) stored.set(reason, text);
      if (known.plan !== plan) return;
      const later = news();
      for (const reason of quotaReasons) {
        if (later.includes(reason)) continue;
        const stop = known.stops[reason] ?? null;
        stops.adopt(reason, stop && { ...stop, until: stop.until - clock.now() + time.now() });
        stored.set(reason, textOf(reason));
      }
    },
  };
}

function keepOf(used: Limits, limits: Limits, total: Limits, need: Limits): Limits {
  return limitsFrom((kind) => {
    const spare = need[kind] > 0 ? Math.ceil(total[kind] / 10) : 0;
    return Math.max(used[kind], Math.min(limits[kind], used[kind] + spare));
  });
}

interface Demanding {
  readonly used: Limits;
  readonly total: Limits;
  readonly limits: Limits;
  readonly waits: Limits;
  readonly now: InFlight;
  readonly most: InFlight;
}

/** `want`: with that much, it need not ask soon. */
function demandOf({ used, total, limits, waits, now, most }: Demanding): {
  readonly need: Limits;
  readonly want: Limits;
} {
  const busy = limitsFrom((kind) => used[kind] + waits[kind]);
  const more = (n: number, cap: number): number =>
    n === 0 ? 0 : Math.min(cap, 2 * n + Math.ceil(cap / 20));
  // Calls that were refused hold slots, too.
  const calls = used.calls - now.all + Math.min(now.all + waits.calls, most.all);
  const polling = used.polling - now.polls + Math.min(now.polls + waits.polling, most.polls);
  // With a small part, these would also go slowly.
  const paced = (kind: SlotKind): number =>
    more(waits[kind] > 0 ? 2 * busy[kind] + Math.ceil(total[kind] / 10) : busy[kind], total[kind]);
  const want = {
    requests: more(busy.requests, total.requests),
    messages: paced("messages"),
    poll: paced("poll"),
    calls: calls + (busy.requests > 0 ? 2 : 0),
    polling: polling + (busy.poll > 0 ? 2 : 0),
  };
  const needed = { ...busy, calls, polling };
  const isShort = (kind: SlotKind): boolean =>
    waits[kind] > 0 && (used[kind] >= limits[kind] || isPaced(kind));
  return {
    need: limitsFrom((kind) => (isShort(kind) ? Math.max(want[kind], needed[kind]) : needed[kind])),
    want,
  };
}
