import type { Clock } from "../../event/clock.ts";
import { type Admission, type CallOutcome, type CallRequest, type Permit, usuallyAtOnce } from "../admission.ts";
import { capsUnknown } from "../service-error.ts";
import { forgetGranted, keyOf } from "./account-state.ts";
import { type Caps, type Plan, planCaps, shareOf } from "./caps.ts";
import { grantedCaps, learnCaps } from "./learn-caps.ts";
import { createOwnLearned } from "./learned.ts";
import { type LimiterState, limiterState } from "./limiter-state.ts";
import { createSharedAccount, type SharedAccount, type Wanted } from "./shared-account.ts";
import type { SharedCaps } from "./shared-port.ts";
import { type CallKind, callKinds, createSlots, type SlotEnd } from "./slots.ts";
import { createSteadyTime } from "./steady-time.ts";
import { createStops, type Identity, type StopReason, type StopState, stopReasons } from "./stops.ts";
import { createTurns } from "./turns.ts";

/** The account's caps, as its plan has them or in numbers, and the share of them (more than 0 to 1) that is ours. */
export type Allowance = ({ readonly plan: Plan } | { readonly caps: Caps }) & { readonly share: number } & {
  /** Tells the account's keys from one another, without being one; processes with different keys may share an account. */
  readonly keyId?: string;
};

export type LimiterOptions = Allowance & {
  readonly clock: Clock;
  /** How long after we gave it up a call of unknown outcome may still reach the service and be counted; 30 s unless said. */
  readonly graceMs?: number;
  /** Calls under way at once, 2 or more, a quarter of which only sends may be; 8, and to stay well below 20 (see `unprovenCalls`). */
  readonly atOnce?: number;
  /** Calls that another process, which is no more, let go within the last minutes: they count against the caps as ours do. */
  readonly recent?: readonly LetGo[];
  /** Caps and stops are kept together with other processes of the account; not given: this one is alone. */
  readonly shared?: SharedCaps | undefined;
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
  refused?(reason: StopReason | "unknown"): void;
  /** A stop began with an answer that was given here. `until`: unix ms. */
  stopped?(reason: StopReason, until: number): void;
}

export interface Limiter extends Admission {
  state(): LimiterState;
  /** The plan was changed, or is believed to have been: ends `quota`, and forgets smaller caps that the service told of. */
  resume(): void;
  /** Other settings of the same account, and perhaps another key: as `resume`, and ends doubts about the key. Slots stay held. */
  retune(allowance: Allowance): void;
  /** To be called when all calls have ended, where they are shared with other processes: no timer is left. */
  close(): void;
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
 * Keeps an account's calls under its per-minute caps: those of one process, or of all that share them.
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
 * Over several processes the same holds, with the moment at which the slot was granted in the place of the one at
 * which the call is let go (`shared-account.ts`).
 *
 * **Who goes first.** `send` before `ask` before `poll` (`turns.ts`). `ask` and `poll` leave alone what sends can need
 * (`quotasOf`); messages and polls are spread over the minute (`slots.ts`).
 *
 * O(1) amortised a call; nothing goes on while nobody waits.
 */
export function createLimiter(options: LimiterOptions): Limiter {
  const { clock, graceMs = 30_000, atOnce = usuallyAtOnce, hooks = {} } = options;
  const time = createSteadyTime(clock);
  let allowance: Allowance = options;
  const identity = (): Identity => identityOf(allowance);
  const account = options.shared === undefined ? ownAccount() : sharedAccount(options.shared);
  const { slots, learned } = account;
  const stops = createStops({ clock, time, learned, identity });
  const turns = createTurns<StopReason | "unknown">({ clock, time, readyAt });
  /** Stops that are known to those who wait here. */
  let inForce = stops.state();
  let sendsUnderWay = 0;
  let othersUnderWay = 0;
  /** Of those under way: a service that hangs on polls would otherwise hang sends too. */
  const mostOthers = atOnce - Math.ceil(atOnce / 4);

  function ownAccount(): SharedAccount {
    const own = createSlots(shareOf(capsOf(options), options.share), graceMs);
    const now = clock.now();
    for (const { at, ...kind } of (options.recent ?? []).toSorted((a, b) => a.at - b.at)) {
      own.count(kind, time.now() + Math.min(at, now) + othersTookMs - now);
    }
    return { slots: own, learned: createOwnLearned(identity().plan, own.newest), isKnown: () => true, refresh: () => {}, close: () => {} };
  }

  function sharedAccount(shared: SharedCaps): SharedAccount {
    return createSharedAccount({
      shared,
      clock,
      time,
      graceMs,
      plan: identity().plan,
      caps: shareOf(capsOf(options), options.share),
      isProven: () => keyOf(learned.view(), identity().key).isProven,
      wanted,
      changed: takeIn,
      lost: () => turns.turnAllAway("unknown"),
    });
  }

  const mostUnderWay = (): number => (keyOf(learned.view(), identity().key).isProven ? atOnce : Math.min(atOnce, unprovenCalls));
  const heldUntil = ({ cap }: CallKind): number => {
    const { requests, messages } = learned.view().holds;
    return Math.max(requests.until, cap === "messages" ? messages.until : 0);
  };

  function readyAt(kind: CallKind, now: number): number {
    // Worth another look when one of them ends.
    if (sendsUnderWay + othersUnderWay >= mostUnderWay() || (kind.priority !== "send" && othersUnderWay >= mostOthers)) {
      return Number.POSITIVE_INFINITY;
    }
    const held = heldUntil(kind);
    return held > now ? held : slots.readyAt(kind, now);
  }

  function wanted(): Wanted {
    const now = time.now();
    const all = Math.max(0, mostUnderWay() - sendsUnderWay - othersUnderWay);
    const others = Math.max(0, Math.min(all, mostOthers - othersUnderWay));
    const wants = callKinds.map((kind) =>
      heldUntil(kind) > now ? 0 : Math.min(turns.waiting(kind.cap, kind.priority), kind.priority === "send" ? all : others),
    );
    return { wants, room: { all, others } };
  }

  /** Something was learned, here or elsewhere. */
  function takeIn(): void {
    slots.setCaps(shareOf(grantedCaps(learned.view(), capsOf(allowance), identity()), allowance.share));
    const before = inForce;
    inForce = stops.state();
    for (const reason of stopReasons) if (inForce[reason] !== null && !wasInForce(reason, before)) turns.turnAllAway(reason);
    turns.letGo();
  }

  /** Doubts about the key end by what is learned only; of the others the time may have run out unnoticed. */
  function wasInForce(reason: StopReason, before: StopState): boolean {
    const until = before[reason];
    return until !== null && (reason === "unauthenticated" || until > clock.now());
  }

  function countUnderWay({ priority }: CallRequest, by: 1 | -1): void {
    if (priority === "send") sendsUnderWay += by;
    else othersUnderWay += by;
  }

  function permitFor(call: CallRequest, isProbe: boolean): Permit {
    const { cap, priority } = call;
    hooks.letGo?.({ cap, priority, at: clock.now() });
    countUnderWay(call, 1);
    const slot = slots.take(call, time.now());
    let isSettled = false;
    return {
      settle(outcome) {
        if (isSettled) return;
        isSettled = true;
        countUnderWay(call, -1);
        const now = time.now();
        slots.end(slot, now, endOf(outcome));
        const ended = { call: { number: slot.number, isProbe }, outcome, now, wallNow: clock.now() };
        const [own, planned] = [identity(), capsOf(allowance)];
        const began = learned.change((state, newest) => {
          learnCaps(state, newest, ended, cap, planned, own);
          return stops.learn(state, newest, ended, own);
        });
        hooks.settled?.(call, outcome);
        if (began !== null) hooks.stopped?.(began, stops.state()[began] ?? clock.now());
        takeIn();
      },
    };
  }

  function restart(next: Allowance, anotherKey: boolean): void {
    allowance = next;
    const { plan } = identity();
    learned.change((state) => forgetGranted(state, plan));
    stops.resume(anotherKey);
    takeIn();
  }

  const refusal = (reason: StopReason | "unknown") => (reason === "unknown" ? capsUnknown() : stops.refusal(reason));

  return {
    // What is thrown inside becomes the rejection.
    enter: (call) =>
      new Promise((resolve, reject) => {
        const { signal } = call;
        signal?.throwIfAborted();
        const verdict = account.isKnown() ? stops.admit() : "unknown";
        if (verdict !== "free" && verdict !== "probe") {
          hooks.refused?.(verdict);
          // Elsewhere it may be over.
          account.refresh();
          throw refusal(verdict);
        }
        let isProbe = false;
        let leaveLine = (): void => {};
        const join = (): void => {
          leaveLine = turns.join(call, {
            go() {
              leave();
              resolve(permitFor(call, isProbe));
            },
            turnAway,
          });
          turns.letGo();
        };
        function leave(): void {
          leaveLine();
          signal?.removeEventListener("abort", giveUp);
        }
        function turnAway(reason: StopReason | "unknown"): void {
          leave();
          if (isProbe) stops.leaveProbe();
          hooks.refused?.(reason);
          reject(refusal(reason));
        }
        function giveUp(): void {
          leave();
          if (isProbe) stops.leaveProbe();
          reject(signal?.reason);
          turns.letGo();
        }
        signal?.addEventListener("abort", giveUp);
        if (verdict === "free") return join();
        stops.beginProbe((got) => {
          if (signal?.aborted === true) {
            if (got === true) stops.leaveProbe();
            return;
          }
          isProbe = got === true;
          if (isProbe) join();
          else turnAway(got === null ? "unknown" : "unauthenticated");
        });
      }),
    state() {
      account.refresh();
      const planned = capsOf(allowance);
      const { holds } = learned.view();
      const granted = grantedCaps(learned.view(), planned, identity());
      return limiterState({ planned, granted, slots, holds, waiting: turns.waiting, time, stops: stops.state() });
    },
    resume: () => restart(allowance, false),
    retune: (next) => restart(next, true),
    close: account.close,
  };
}

function endOf({ type }: CallOutcome): SlotEnd {
  return type === "unknown" ? "lost" : type === "not-sent" ? "not-sent" : "answered";
}

function capsOf(allowance: Allowance): Caps {
  return "caps" in allowance ? allowance.caps : planCaps[allowance.plan];
}

function identityOf(allowance: Allowance): Identity {
  const { requests, messages } = capsOf(allowance);
  return { plan: `${requests}/${messages}`, key: allowance.keyId ?? "" };
}
