import type { Clock } from "../../event/clock.ts";
import { type Admission, type CallOutcome, type CallRequest, type Permit, usuallyAtOnce } from "../admission.ts";
import { type CapHold, createCapHold } from "./cap-hold.ts";
import { type Caps, type Plan, planCaps, shareOf } from "./caps.ts";
import { type LimiterState, limiterState } from "./limiter-state.ts";
import { type CallKind, createSlots, type SlotEnd } from "./slots.ts";
import { createSteadyTime } from "./steady-time.ts";
import { createStops, type StopReason } from "./stops.ts";
import { createTurns } from "./turns.ts";

/** The account's caps, as its plan has them or in numbers, and the share of them (more than 0 to 1) that is ours. */
export type Allowance = ({ readonly plan: Plan } | { readonly caps: Caps }) & { readonly share: number };

export type LimiterOptions = Allowance & {
  readonly clock: Clock;
  /** How long after we gave it up a call of unknown outcome may still reach the service and be counted; 30 s unless said. */
  readonly graceMs?: number;
  /** Calls under way at once, 2 or more, a quarter of which only sends may be; 8, and to stay well below 20 (see `unprovenCalls`). */
  readonly atOnce?: number;
  /** Calls that another process, which is no more, let go within the last minutes: they count against the caps as ours do. */
  readonly recent?: readonly LetGo[];
  readonly hooks?: LimiterHooks;
};

/** A call that was let go at `at` (unix ms). */
export interface LetGo extends CallKind {
  readonly at: number;
}

export interface LimiterHooks {
  /** A call is let go now. */
  letGo?(call: LetGo): void;
  settled?(call: CallRequest, outcome: CallOutcome): void;
  /** A call was turned away without asking the service. */
  refused?(reason: StopReason): void;
  /** `until`: unix ms. */
  stopped?(reason: StopReason, until: number): void;
}

export interface Limiter extends Admission {
  state(): LimiterState;
  /** The plan was changed, or is believed to have been: ends `quota`, and forgets smaller caps that the service told of. */
  resume(): void;
  /** Other settings of the same account, and perhaps another key: as `resume`, and ends doubts about the key. Slots stay held. */
  retune(allowance: Allowance): void;
}

/**
 * Until an answer has shown that the key is good, so many calls may be under way: a wrong key in the settings must not
 * cost the 20 bad calls of a minute that block the address. For the same reason no more than `atOnce` are later on: when
 * a key is revoked, all that are under way are bad calls.
 */
const unprovenCalls = 5;

/** The time a call of another process had for its answer; when it ended is not known, so it counts until a minute after that. */
const othersTookMs = 10_000;

/**
 * Keeps an account's calls under its per-minute caps, in one process.
 *
 * **Why the caps hold.** The service counts in one-minute windows whose phase we do not know, and counts a call at some
 * moment between our letting it go and its end. A call holds a slot from when it is let go until 60 s after its end,
 * and a call is let go only while fewer slots than the cap are held. Take any window of 60 s at the service, and of the
 * calls counted in it the one let go last, at time g; it was counted in the window, so g lies before the window's end.
 * Every other one was let go no later than g, and was counted in the window, so it ended no earlier than the window's
 * begin; its slot comes back no earlier than the window's end, and so is held at g. All calls of the window thus hold
 * slots at once, right after g, and those are at most the cap. A call of unknown outcome may still be on its way when we
 * give it up, so its end is taken to be `graceMs` later; one that was never sent is counted in no window, and gives its
 * slot back at once. What the service grants others who use the account is not ours
 * to know: when it answers 429 all the same, the cap is held (`cap-hold.ts`).
 *
 * **Who goes first.** `send` before `ask` before `poll` (`turns.ts`). `ask` and `poll` leave alone what sends can need
 * (`quotasOf`); messages and polls are spread over the minute (`slots.ts`).
 *
 * O(1) amortised a call; nothing goes on while nobody waits.
 */
export function createLimiter(options: LimiterOptions): Limiter {
  const { clock, graceMs = 30_000, atOnce = usuallyAtOnce, hooks = {} } = options;
  const time = createSteadyTime(clock);
  const stops = createStops(clock, time);
  let allowance: Allowance = options;
  /** What the service grants: as planned, or fewer when one of its answers said so. */
  let granted = capsOf(options);
  const slots = createSlots(shareOf(granted, options.share), graceMs);
  countRecent();
  const holds: Record<keyof Caps, CapHold> = { requests: createCapHold(), messages: createCapHold() };
  const turns = createTurns<StopReason>({ clock, time, readyAt });
  /** The number of the call let go last. */
  let newest = 0;
  let sendsUnderWay = 0;
  let othersUnderWay = 0;
  /** Of those under way: a service that hangs on polls would otherwise hang sends too. */
  const mostOthers = atOnce - Math.ceil(atOnce / 4);
  let isProven = false;

  function readyAt(kind: CallKind, now: number): number {
    const mostUnderWay = isProven ? atOnce : Math.min(atOnce, unprovenCalls);
    const isSend = kind.priority === "send";
    // Worth another look when one of them ends.
    if (sendsUnderWay + othersUnderWay >= mostUnderWay || (!isSend && othersUnderWay >= mostOthers)) return Number.POSITIVE_INFINITY;
    const heldUntil = Math.max(holds.requests.until(), kind.cap === "messages" ? holds.messages.until() : 0);
    return Math.max(heldUntil, slots.readyAt(kind, now));
  }

  function countRecent(): void {
    const now = clock.now();
    for (const { at, ...kind } of (options.recent ?? []).toSorted((a, b) => a.at - b.at)) {
      slots.count(kind, time.now() + Math.min(at, now) + othersTookMs - now);
    }
  }

  function countUnderWay({ priority }: CallRequest, by: 1 | -1): void {
    if (priority === "send") sendsUnderWay += by;
    else othersUnderWay += by;
  }

  function permitFor(call: CallRequest, isProbe: boolean): Permit {
    newest += 1;
    hooks.letGo?.({ cap: call.cap, priority: call.priority, at: clock.now() });
    countUnderWay(call, 1);
    const numbered = { number: newest, isProbe };
    slots.take(call, time.now());
    let isSettled = false;
    return {
      settle(outcome) {
        if (isSettled) return;
        isSettled = true;
        countUnderWay(call, -1);
        slots.end(call, time.now(), endOf(outcome));
        learnCaps(call, numbered.number, outcome);
        const began = stops.learn(numbered, newest, outcome);
        hooks.settled?.(call, outcome);
        if (began !== null) {
          hooks.stopped?.(began, stops.state()[began] ?? clock.now());
          turns.turnAllAway(began);
        }
        turns.letGo();
      },
    };
  }

  function learnCaps(call: CallRequest, number: number, outcome: CallOutcome): void {
    if (outcome.type === "unauthenticated") isProven = false;
    if (outcome.type === "answered") {
      isProven = true;
      holds.requests.answered(number);
      if (call.cap === "messages") holds.messages.answered(number);
    }
    if (outcome.type !== "rate-limited") return;
    isProven = true;
    for (const cap of outcome.cap === null ? (["requests", "messages"] as const) : [outcome.cap]) {
      holds[cap].refused(number, newest, time.now(), outcome.retryAfterMs);
    }
    // Of a `POST /messages` the answer may not tell which cap it was. Either way messages cannot be more than its
    // limit, because each counts against both.
    const lowered = outcome.cap ?? call.cap;
    const { limit } = outcome;
    if (limit !== null && limit >= 1 && limit < granted[lowered]) {
      granted = { ...granted, [lowered]: limit };
      slots.setCaps(shareOf(granted, allowance.share));
    }
  }

  function restart(next: Allowance, anotherKey: boolean): void {
    allowance = next;
    granted = capsOf(next);
    slots.setCaps(shareOf(granted, next.share));
    stops.resume(newest, anotherKey);
    turns.letGo();
  }

  return {
    // What is thrown inside becomes the rejection.
    enter: (call) =>
      new Promise((resolve, reject) => {
        const { signal } = call;
        signal?.throwIfAborted();
        const verdict = stops.admit();
        if ("refused" in verdict) {
          hooks.refused?.(verdict.refused);
          throw stops.refusal(verdict.refused);
        }
        const { isProbe } = verdict;
        const leaveLine = turns.join(call, {
          go() {
            leave();
            resolve(permitFor(call, isProbe));
          },
          turnAway(reason) {
            leave();
            if (isProbe) stops.probeLeft();
            hooks.refused?.(reason);
            reject(stops.refusal(reason));
          },
        });
        function leave(): void {
          leaveLine();
          signal?.removeEventListener("abort", giveUp);
        }
        function giveUp(): void {
          leave();
          if (isProbe) stops.probeLeft();
          reject(signal?.reason);
          turns.letGo();
        }
        signal?.addEventListener("abort", giveUp);
        turns.letGo();
      }),
    state: () => limiterState({ planned: capsOf(allowance), granted, slots, holds, waiting: turns.waiting, time, stops: stops.state() }),
    resume: () => restart(allowance, false),
    retune: (next) => restart(next, true),
  };
}

function endOf({ type }: CallOutcome): SlotEnd {
  return type === "unknown" ? "lost" : type === "not-sent" ? "not-sent" : "answered";
}

function capsOf(allowance: Allowance): Caps {
  return "caps" in allowance ? allowance.caps : planCaps[allowance.plan];
}
