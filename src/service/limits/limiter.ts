import type { Budgets } from "../../model/budget.ts";
import { type Clock, createSteadyTime, growingWait } from "../../model/clock.ts";
import {
  type CallCap,
  type CallOperation,
  type CallOutcome,
  type CallPriority,
  type CallRequest,
  capOf,
  defaultConcurrency,
  type Permit,
} from "../endpoints.ts";
import type { ServiceError } from "../errors.ts";
import {
  type AccountPart,
  type BudgetParts,
  createBudgetedAccount,
  type InFlight,
} from "./budget.ts";
import { type Caps, planId, shareOf } from "./caps.ts";
import {
  createCallQueue,
  createSlots,
  limitsOf,
  type ProbingCall,
  tookMs,
  windowMs,
} from "./slots.ts";
import {
  createStops,
  type EndedCall,
  type Probes,
  type QuotaReason,
  type Refusal,
  type StopReason,
  type StopState,
} from "./stops.ts";

/** `share`: more than 0, at most 1. */
export interface Allowance {
  readonly caps: Caps;
  readonly share: number;
  readonly keyId?: string;
}

export interface LimiterOptions extends Allowance {
  readonly clock: Clock;
  /**
   * Calls in flight, at least 2, a quarter of them for sends only. Stay well below 20 (see
   * `unverifiedCalls`).
   */
  readonly atOnce?: number;
  /**
   * Calls of an earlier process, which count against the caps too. Only of a process that is alone.
   */
  readonly recent?: readonly DispatchedCall[];
  /** Default: this process is alone. */
  readonly budgets?: Budgets | undefined;
  readonly hooks?: LimiterHooks;
}

/** `at`: unix ms. */
export interface DispatchedCall extends Pick<CallRequest, "operation"> {
  readonly at: number;
}

export interface LimiterHooks {
  dispatched?(call: DispatchedCall): void;
  settled?(call: CallRequest, outcome: CallOutcome): void;
  refused?(reason: Refusal): void;
  /** `until`: unix ms; `resource`: the service's name of the quota. */
  stopped?(reason: StopReason, until: number, resource: string | null): void;
}

interface CapState {
  readonly limit: number;
  readonly used: number;
  readonly waiting: Readonly<Record<CallPriority, number>>;
  /** By a 429, in unix ms. */
  readonly heldUntil: number | null;
}

export interface LimiterState {
  readonly caps: Readonly<Record<CallCap, CapState>>;
  readonly stops: StopState;
  readonly resources: Readonly<Partial<Record<StopReason, string>>>;
}

/**
 * Calls in flight until an answer has shown that the key is valid: 20 calls with a wrong key within
 * a minute block the address. `atOnce` limits them later for the same reason: when a key is
 * revoked, all calls in flight are bad calls.
 */
const unverifiedCalls = 5;

export type Limiter = ReturnType<typeof createLimiter>;

/**
 * Keeps an account's calls under its per-minute caps: those of one process, or of all that share
 * them.
 *
 * **Why the caps hold.** The service counts in one-minute windows whose phase we do not know, and
 * counts a call at some moment between its dispatch and its end. A call holds a slot from its
 * dispatch until 60 s after its end, and calls are dispatched only while fewer slots than the cap
 * are held. Take any window of 60 s at the service, and of the calls counted in it the one
 * dispatched last, at time g; it was counted in the window, so g lies before the window's end.
 * Every other one was dispatched no later than g, and was counted in the window, so it ended no
 * earlier than the window's start; its slot comes back no earlier than the window's end, and so is
 * held at g. All calls of the window thus hold slots at once, right after g, and those are at most
 * the cap. A call of unknown outcome may still be in flight, so its end is taken to be `graceMs`
 * later. A call that was never sent counts in no window and returns its slot at once. The relay
 * cannot know the other users of the account: when the service answers 429 all the same, the cap is
 * held (`createHolds`).
 *
 * With several processes, each has a part of the caps (`budget.ts`).
 *
 * **Priorities.** `send` before `poll`, which leaves what sends can need (`mostPolls`). Messages
 * and polls are spread over the minute (`slots.ts`).
 *
 * Takes time in proportion to the caps per call; idle while no calls wait.
 */
export function createLimiter(options: LimiterOptions) {
  const { clock, atOnce = defaultConcurrency, budgets, hooks = {} } = options;
  const time = createSteadyTime(clock);
  let allowance: Allowance = options;
  const holds = createHolds();
  const stops = createStops({ time, newest: () => account.newest() });
  const mostInFlight = () => mostInFlightOf(atOnce, stops.isKeyVerified());
  const queue = createCallQueue({ clock, time, readyAt });
  const own = { clock, time, caps: shareOf(options.caps, options.share) };
  const account: AccountPart =
    budgets === undefined
      ? ownAccount({ ...own, recent: options.recent ?? [] })
      : createBudgetedAccount({
          ...own,
          stops,
          budgets,
          plan: () => planId(allowance.caps),
          waiting: queue.waiting,
          mostInFlight,
          changed: applyLearned,
          lost: () => queue.refuse(() => refusal("unknown")),
        });

  function readyAt(operation: CallOperation, now: number): number {
    const { all, polls } = account.inFlight();
    const most = mostInFlight();
    if (all >= most.all || (operation === "reads" && polls >= most.polls))
      return Number.POSITIVE_INFINITY;
    const held = holds.readyAt(capOf(operation));
    return held > now ? held : account.readyAt(operation, now);
  }

  function applyLearned(): void {
    // A look at each waiting call, which not every answer should cost.
    if (Object.values(stops.state()).some((until) => until !== null)) queue.refuse(refusalOf);
    queue.dispatch();
  }

  function permitFor(call: CallRequest, probes: Probes): Permit {
    const { operation } = call;
    hooks.dispatched?.({ operation, at: clock.now() });
    const slot = account.take(operation, time.now());
    let isSettled = false;
    return {
      settle(outcome) {
        if (isSettled) return;
        isSettled = true;
        const now = time.now();
        account.end(slot, now, outcome.type);
        const ended = {
          number: slot.number,
          probes,
          operation,
          outcome,
          now,
          wallNow: clock.now(),
        };
        holds.learn(capOf(operation), ended);
        const began = stops.learn(ended);
        account.learned();
        hooks.settled?.(call, outcome);
        if (began !== null)
          hooks.stopped?.(
            began,
            stops.state()[began] ?? clock.now(),
            stops.resources()[began] ?? null,
          );
        applyLearned();
      },
    };
  }

  function restart(next: Allowance): readonly QuotaReason[] {
    allowance = next;
    account.setCaps(shareOf(allowance.caps, allowance.share));
    const ended = stops.resume();
    account.learned();
    applyLearned();
    return ended;
  }

  function capState(cap: CallCap): CapState {
    const { caps, share } = allowance;
    const until = holds.until(cap);
    return {
      limit: shareOf(caps, share)[cap],
      used: account.usedOf(cap, time.now()),
      waiting:
        cap === "messages"
          ? { send: queue.waiting("messages"), poll: 0 }
          : { send: queue.waiting("runs"), poll: queue.waiting("reads") },
      heldUntil: until > time.now() ? time.toUnix(until) : null,
    };
  }

  function refusalOf({ operation, probes }: ProbingCall): ServiceError | null {
    const reason = stops.refusing(operation, probes);
    return reason && refusal(reason);
  }

  function refusal(reason: Refusal): ServiceError {
    hooks.refused?.(reason);
    return stops.refusal(reason);
  }

  return {
    async enter(call: CallRequest): Promise<Permit> {
      call.signal?.throwIfAborted();
      const probes = account.isKnown() ? stops.admit(call.operation) : "unknown";
      if (typeof probes === "string") {
        account.refresh();
        throw refusal(probes);
      }
      return await queue.wait(
        { ...call, probes },
        () => permitFor(call, probes),
        () => stops.leave(probes),
      );
    },
    state(): LimiterState {
      account.refresh();
      return {
        caps: { requests: capState("requests"), messages: capState("messages") },
        stops: stops.state(),
        resources: stops.resources(),
      };
    },
    /** Resolves once that is stored for all processes; rejects if it may not be. */
    async resumeByOrder(): Promise<readonly QuotaReason[]> {
      if (!(await account.stored())) throw stops.refusal("unknown");
      const ended = restart(allowance);
      if (!(await account.stored())) throw stops.refusal("unknown");
      return ended;
    },
    /**
     * Ends the stops of quotas, for perhaps the plan has changed, and of another key. Slots stay
     * held.
     */
    retune(next: Allowance): void {
      if (next.keyId !== allowance.keyId) stops.takeKey();
      restart(next);
    },
    close: account.close,
  };
}

/** Polls have less room: a service that hangs on them would block sends too. */
function mostInFlightOf(atOnce: number, isKeyVerified: boolean): InFlight {
  const all = isKeyVerified ? atOnce : Math.min(atOnce, unverifiedCalls);
  return { all, polls: Math.min(all, atOnce - Math.ceil(atOnce / 4)) };
}

interface OwnParts extends Pick<BudgetParts, "clock" | "time" | "caps"> {
  readonly recent: readonly DispatchedCall[];
}

function ownAccount({ clock, time, caps, recent }: OwnParts): AccountPart {
  const slots = createSlots(limitsOf(caps));
  const now = clock.now();
  for (const { at, operation } of recent) {
    slots.count(operation, time.now() + Math.min(at, now) + tookMs - now);
  }
  return {
    ...slots,
    setCaps: (next) => slots.setLimits(limitsOf(next), time.now()),
    usedOf: (cap, at) => slots.used(at)[cap],
    learned: () => {},
    isKnown: () => true,
    refresh: () => {},
    stored: async () => true,
    close: () => {},
  };
}

/**
 * Shorter waits would hammer the service; a longer `Retry-After` cannot concern a cap per minute.
 */
const holdMs = { shortest: 1_000, longest: 3_600_000 };

/**
 * A 429 holds its cap for as long as the header says, and until a call passes each next one twice
 * as long as before, up to a minute ("Client guidance"). Times are steady ms.
 */
function createHolds() {
  const until = { requests: 0, messages: 0 };
  const inRow = { requests: 0, messages: 0 };
  return {
    until: (cap: CallCap): number => until[cap],
    readyAt: (cap: CallCap): number => Math.max(...capsOf(cap).map((counted) => until[counted])),
    learn(used: CallCap, { outcome, now }: EndedCall): void {
      if (outcome.type === "answered") for (const cap of capsOf(used)) inRow[cap] = 0;
      if (outcome.type !== "rate-limited") return;
      // Without a header: caps are one-minute windows.
      const wait = Math.min(outcome.retryAfterMs ?? windowMs, holdMs.longest);
      for (const cap of outcome.cap === null ? capsOf("messages") : [outcome.cap]) {
        // Calls that were in flight together fail together.
        if (now >= until[cap]) inRow[cap] += 1;
        until[cap] = Math.max(
          until[cap],
          now + Math.max(wait, growingWait(inRow[cap], holdMs.shortest, windowMs)),
        );
      }
    },
  };
}

const capsOf = (cap: CallCap): readonly CallCap[] =>
  cap === "messages" ? ["requests", "messages"] : ["requests"];
