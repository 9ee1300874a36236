import type { Budgets } from "../../model/budget.ts";
import { type Clock, createSteadyTime, type SteadyTime } from "../../model/clock.ts";
import {
  type Admission,
  type CallCap,
  type CallOperation,
  type CallOutcome,
  type CallPriority,
  type CallRequest,
  defaultConcurrency,
  type Permit,
} from "../admission.ts";
import { capsUnknown } from "../errors.ts";
import type { Plan } from "../settings.ts";
import { createAccountState, type Identity, keyOf, type QuotaReason, quotaReasons, type StopReason, stopReasons } from "./account.ts";
import { type AccountPart, createBudgetedAccount } from "./budget.ts";
import { type Caps, learnCaps, planCaps, planId, shareOf } from "./caps.ts";
import { type CallKind, type CallQueue, createCallQueue, createSlots, limitsOf, type SlotEnd } from "./slots.ts";
import { coveringReasons, createStops, type StopState, type Stops } from "./stops.ts";

/** The account's caps, by plan or in numbers, and the relay's share of them (more than 0, at most 1). */
export type Allowance = ({ readonly plan: Plan } | { readonly caps: Caps }) & { readonly share: number } & {
  /** A fingerprint of the key. Processes with different keys may share an account. */
  readonly keyId?: string;
};

export type LimiterOptions = Allowance & {
  readonly clock: Clock;
  /** How long after it ended here a call of unknown outcome may still reach the service and count; default 30 s. */
  readonly graceMs?: number;
  /** Calls in flight at once, at least 2, a quarter of them for sends only. Default 8; stay well below 20 (see `unprovenCalls`). */
  readonly atOnce?: number;
  /** Calls that an earlier process dispatched within the last minutes: they count against the caps too. */
  readonly recent?: readonly DispatchedCall[];
  /** Divides the caps among the processes of the account; default: this process is alone. */
  readonly budgets?: Budgets | undefined;
  readonly hooks?: LimiterHooks;
};

/** A call that was dispatched at `at` (unix ms). */
export interface DispatchedCall extends CallKind {
  readonly at: number;
}

export interface LimiterHooks {
  /** A call is dispatched now. */
  dispatched?(call: DispatchedCall): void;
  settled?(call: CallRequest, outcome: CallOutcome): void;
  /** A call was refused without a request. */
  refused?(reason: StopReason | "unknown"): void;
  /** A stop began with an answer to this process. `until`: unix ms; `resource`: of a quota, as the service names it. */
  stopped?(reason: StopReason, until: number, resource: string | null): void;
}

interface CapState {
  /** The plan's calls per minute. */
  readonly planned: number;
  /** The relay's share of those: its number of slots. */
  readonly limit: number;
  /** Slots held, by calls in flight and those of the last minute. */
  readonly used: number;
  /** Calls that wait. */
  readonly waiting: Readonly<Record<CallPriority, number>>;
  /** Unix ms until which a 429 holds all calls of this cap; null: not held. */
  readonly heldUntil: number | null;
}

export interface LimiterState {
  readonly caps: Readonly<Record<CallCap, CapState>>;
  readonly stops: StopState;
  /** The service's names of used-up quotas, where known. */
  readonly resources: Readonly<Partial<Record<QuotaReason, string>>>;
}

export interface Limiter extends Admission {
  state(): LimiterState;
  /** For a changed plan: ends the stops of quotas. */
  resume(): void;
  /** The same for an operator: resolves with the ended stops once they are stored for all processes; rejects if they may not be. */
  resumeByOrder(): Promise<readonly QuotaReason[]>;
  /** New settings of the same account, perhaps with another key: as `resume`, and ends doubts about the key. Slots stay held. */
  retune(allowance: Allowance): void;
  /** Stops the timers. Call it when all calls have ended. */
  close(): void;
}

/**
 * Calls in flight until an answer has shown that the key is valid: 20 calls with a wrong key within a minute block the
 * address. `atOnce` limits them later for the same reason: when a key is revoked, all calls in flight are bad calls.
 */
const unprovenCalls = 5;

/** The timeout of an earlier process's calls. Their end is unknown, so they count until a minute after that. */
const othersTookMs = 10_000;

/**
 * Keeps an account's calls under its per-minute caps: those of one process, or of all that share them.
 *
 * **Why the caps hold.** The service counts in one-minute windows whose phase we do not know, and counts a call at some
 * moment between its dispatch and its end. A call holds a slot from its dispatch until 60 s after its end, and calls are
 * dispatched only while fewer slots than the cap are held. Take any window of 60 s at the service, and of the calls
 * counted in it the one dispatched last, at time g; it was counted in the window, so g lies before the window's end.
 * Every other one was dispatched no later than g, and was counted in the window, so it ended no earlier than the window's
 * start; its slot comes back no earlier than the window's end, and so is held at g. All calls of the window thus hold
 * slots at once, right after g, and those are at most the cap. A call of unknown outcome may still be in flight, so its
 * end is taken to be `graceMs` later. A call that was never sent counts in no window and returns its slot at once. The
 * relay cannot know the other users of the account: when the service answers 429 all the same, the cap is held (`caps.ts`).
 *
 * With several processes, each has a part of the caps (`budget.ts`).
 *
 * **Priorities.** `send` before `interactive` before `poll`. `interactive` and `poll` leave what sends can need (`quotasOf`);
 * messages and polls are spread over the minute (`slots.ts`).
 *
 * O(1) amortized per call; idle while no calls wait.
 */
export function createLimiter(options: LimiterOptions): Limiter {
  const { clock, graceMs = 30_000, atOnce = defaultConcurrency, hooks = {}, budgets } = options;
  const time = createSteadyTime(clock);
  let allowance: Allowance = options;
  const identity = (): Identity => identityOf(allowance);
  const inFlight = createInFlight(atOnce, () => keyOf(state, identity().key).isProven);
  const caps = shareOf(capsOf(options), options.share);
  const account: AccountPart =
    budgets === undefined
      ? createOwnAccount({ clock, time, graceMs, caps, recent: options.recent ?? [] }, identity().plan)
      : createBudgetedAccount({
          budgets,
          clock,
          time,
          graceMs,
          tookMs: othersTookMs,
          caps,
          plan: () => identity().plan,
          waiting: ({ cap, priority }) => queue.waiting(cap, priority),
          inFlight: inFlight.facts,
          changed: applyLearned,
          lost: () => line.turnAway("unknown"),
        });
  const { slots, state, newest } = account;
  const stops = createStops({ time, state, newest, identity });
  const queue = createCallQueue({ clock, time, readyAt });
  const line = createLine({ account, stops, queue, hooks, permitFor });
  /** Stops as of the last check. */
  let inForce = stops.state();

  function readyAt(kind: CallKind, now: number): number {
    // Look again when a call ends.
    if (inFlight.isFull(kind)) return Number.POSITIVE_INFINITY;
    const { requests, messages } = state.holds;
    const held = Math.max(requests.until, kind.cap === "messages" ? messages.until : 0);
    return held > now ? held : slots.readyAt(kind, now);
  }

  /** Applies what this process or another one learned. */
  function applyLearned(): void {
    const before = inForce;
    inForce = stops.state();
    for (const reason of stopReasons) if (inForce[reason] !== null && !wasInForce(reason, before, clock.now())) line.turnAway(reason);
    queue.dispatch();
  }

  function permitFor(call: CallRequest, probes: readonly StopReason[]): Permit {
    const { cap, operation, priority } = call;
    hooks.dispatched?.({ cap, priority, at: clock.now() });
    inFlight.count(call, 1);
    const slot = slots.take(call, time.now());
    let isSettled = false;
    return {
      settle(outcome) {
        if (isSettled) return;
        isSettled = true;
        inFlight.count(call, -1);
        const now = time.now();
        slots.end(slot, now, endOf(outcome), outcome.type === "unauthenticated" || outcome.type === "blocked");
        const ended = { call: { number: slot.number, probes }, operation, outcome, now, wallNow: clock.now() };
        learnCaps(state, newest(), ended, cap, identity().key);
        const began = stops.learn(ended);
        account.learned();
        hooks.settled?.(call, outcome);
        if (began !== null) {
          const resource = outcome.type === "quota-used-up" ? outcome.resource : null;
          hooks.stopped?.(began, stops.state()[began] ?? clock.now(), resource);
        }
        applyLearned();
      },
    };
  }

  function resume(anotherKey: boolean): readonly QuotaReason[] {
    const ended = stops.resume(anotherKey);
    account.learned();
    applyLearned();
    return ended;
  }

  function restart(next: Allowance, anotherKey: boolean): void {
    allowance = next;
    slots.setCaps(shareOf(capsOf(allowance), allowance.share));
    resume(anotherKey);
  }

  function capState(cap: CallCap, now: number): CapState {
    const { until } = state.holds[cap];
    return {
      planned: capsOf(allowance)[cap],
      limit: slots.limit(cap),
      used: slots.used(cap, now),
      waiting: { send: queue.waiting(cap, "send"), interactive: queue.waiting(cap, "interactive"), poll: queue.waiting(cap, "poll") },
      heldUntil: until > now ? time.toUnix(until) : null,
    };
  }

  return {
    enter: line.enter,
    state() {
      account.refresh();
      const now = time.now();
      return {
        caps: { requests: capState("requests", now), messages: capState("messages", now) },
        stops: stops.state(),
        resources: stops.resources(),
      };
    },
    resume: () => restart(allowance, false),
    async resumeByOrder() {
      if (!(await account.stored())) throw capsUnknown();
      const ended = resume(false);
      if (!(await account.stored())) throw capsUnknown();
      return ended;
    },
    retune: (next) => restart(next, true),
    close: account.close,
  };
}

interface OwnParts {
  readonly clock: Clock;
  readonly time: SteadyTime;
  readonly graceMs: number;
  readonly caps: Caps;
  readonly recent: readonly DispatchedCall[];
}

/** An account that this process alone uses: it has all slots, and knows all there is to know. */
function createOwnAccount({ clock, time, graceMs, caps: first, recent }: OwnParts, plan: string): AccountPart {
  let caps = first;
  const slots = createSlots(limitsOf(caps), graceMs);
  const now = clock.now();
  for (const { at, ...kind } of recent.toSorted((a, b) => a.at - b.at)) {
    slots.count(kind, time.now() + Math.min(at, now) + othersTookMs - now);
  }
  return {
    slots: {
      ...slots,
      setCaps(next) {
        caps = next;
        slots.setLimits(limitsOf(next), time.now());
      },
      used: (cap, at) => slots.used(at)[cap],
      limit: (cap) => caps[cap],
    },
    state: createAccountState(plan),
    newest: slots.newest,
    learned: () => {},
    isKnown: () => true,
    refresh: () => {},
    stored: async () => true,
    close: () => {},
  };
}

/** Calls in flight. Those other than sends are limited, because a service that hangs on polls would otherwise block sends too. */
function createInFlight(atOnce: number, isProven: () => boolean) {
  const mostOthers = atOnce - Math.ceil(atOnce / 4);
  const most = (): number => (isProven() ? atOnce : Math.min(atOnce, unprovenCalls));
  let sends = 0;
  let others = 0;
  return {
    count({ priority }: CallRequest, by: 1 | -1): void {
      if (priority === "send") sends += by;
      else others += by;
    },
    isFull: ({ priority }: CallKind): boolean => sends + others >= most() || (priority !== "send" && others >= mostOthers),
    facts: () => ({ now: { all: sends + others, others }, most: { all: most(), others: Math.min(most(), mostOthers) } }),
  };
}

interface LineParts {
  readonly account: AccountPart;
  readonly stops: Stops;
  readonly queue: CallQueue;
  readonly hooks: LimiterHooks;
  readonly permitFor: (call: CallRequest, probes: readonly StopReason[]) => Permit;
}

/** Calls that wait for their permits. A stop turns away those that it covers. */
function createLine({ account, stops, queue, hooks, permitFor }: LineParts) {
  const waiting = new Set<{ readonly operation: CallOperation; turnAway(reason: StopReason | "unknown"): void }>();
  const refusal = (reason: StopReason | "unknown") => (reason === "unknown" ? capsUnknown() : stops.refusal(reason));

  return {
    // Errors thrown inside become the rejection.
    enter: (call: CallRequest): Promise<Permit> =>
      new Promise((resolve, reject) => {
        const { signal } = call;
        signal?.throwIfAborted();
        const probes = account.isKnown() ? stops.admit(call.operation) : ("unknown" as const);
        if (typeof probes === "string") {
          hooks.refused?.(probes);
          // In another process, the stop may be over.
          account.refresh();
          throw refusal(probes);
        }
        const leave = (): void => {
          leaveQueue();
          waiting.delete(entry);
          signal?.removeEventListener("abort", giveUp);
        };
        const turnAway = (reason: StopReason | "unknown"): void => {
          leave();
          stops.leaveProbe(probes);
          hooks.refused?.(reason);
          reject(refusal(reason));
        };
        const giveUp = (): void => {
          leave();
          stops.leaveProbe(probes);
          reject(signal?.reason);
          queue.dispatch();
        };
        const go = (): void => {
          leave();
          resolve(permitFor(call, probes));
        };
        const leaveQueue = queue.join(call, { go });
        const entry = { operation: call.operation, turnAway };
        waiting.add(entry);
        signal?.addEventListener("abort", giveUp);
        queue.dispatch();
      }),
    turnAway(reason: StopReason | "unknown"): void {
      for (const call of [...waiting]) {
        if (!isQuotaReason(reason) || coveringReasons(call.operation).includes(reason)) call.turnAway(reason);
      }
    },
  };
}

/** A block ends by time alone, the other stops only by an answer or an operator. */
function wasInForce(reason: StopReason, before: StopState, now: number): boolean {
  const until = before[reason];
  return until !== null && (reason !== "blocked" || until > now);
}

function isQuotaReason(reason: StopReason | "unknown"): reason is QuotaReason {
  return (quotaReasons as readonly string[]).includes(reason);
}

function endOf({ type }: CallOutcome): SlotEnd {
  return type === "unknown" ? "lost" : type === "not-sent" ? "not-sent" : "answered";
}

function capsOf(allowance: Allowance): Caps {
  return "caps" in allowance ? allowance.caps : planCaps[allowance.plan];
}

function identityOf(allowance: Allowance): Identity {
  return { plan: planId(capsOf(allowance)), key: allowance.keyId ?? "" };
}
