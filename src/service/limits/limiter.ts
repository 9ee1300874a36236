import type { Clock } from "../../event/clock.ts";
import { createSteadyTime } from "../../event/clock.ts";
import { type Admission, type CallOperation, type CallOutcome, type CallRequest, type Permit, usuallyAtOnce } from "../admission.ts";
import { capsUnknown } from "../errors.ts";
import { type Identity, keyOf, type QuotaReason, quotaReasons, type StopReason, stopReasons } from "./account.ts";
import { type Caps, grantedCaps, learnCaps, type Plan, planCaps, planId, shareOf } from "./caps.ts";
import { createOwnLearned } from "./learned.ts";
import { type LimiterState, limiterState } from "./limiter-state.ts";
import { coveringReasons } from "./probes.ts";
import { createTurns } from "./queue.ts";
import { createSharedAccount, type SharedAccount, type Wanted } from "./shared.ts";
import type { SharedCaps } from "./shared-port.ts";
import { type CallKind, callKinds, createSlots, type SlotEnd } from "./slots.ts";
import { createStops, type StopState } from "./stops.ts";

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
  /** A stop began with an answer that was given here. `until`: unix ms; `resource`: of a quota, as the service names it. */
  stopped?(reason: StopReason, until: number, resource: string | null): void;
}

export interface Limiter extends Admission {
  state(): LimiterState;
  /** The plan was changed, or is believed to have been: ends the stops of quotas, and forgets smaller caps that the service told of. */
  resume(): void;
  /** The same by an operator's order: resolves with the stops that it ended once all processes know. Rejects when they may not. */
  resumeByOrder(): Promise<readonly QuotaReason[]>;
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
 * to know: when it answers 429 all the same, the cap is held (`caps.ts`).
 *
 * Over several processes the same holds, with the moment at which the slot was granted in the place of the one at
 * which the call is let go (`shared.ts`).
 *
 * **Who goes first.** `send` before `ask` before `poll` (`queue.ts`). `ask` and `poll` leave alone what sends can need
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
  const stops = createStops({ time, learned, identity });
  const turns = createTurns({ clock, time, readyAt });
  /** Calls that wait for their turn. To turn one away also takes it out of its line. */
  const waiting = new Set<{ readonly operation: CallOperation; turnAway(reason: StopReason | "unknown"): void }>();
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
      lost: () => turnAway("unknown"),
    });
  }

  /** Those that the reason covers. */
  function turnAway(reason: StopReason | "unknown"): void {
    for (const call of [...waiting]) {
      if (!isQuotaReason(reason) || coveringReasons(call.operation).includes(reason)) call.turnAway(reason);
    }
  }

  /** A reported cap grows with time. */
  function adjustCaps(): void {
    slots.setCaps(shareOf(grantedCaps(learned.view(), capsOf(allowance), identity(), time.now()), allowance.share));
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
    adjustCaps();
    const before = inForce;
    inForce = stops.state();
    for (const reason of stopReasons) if (inForce[reason] !== null && !wasInForce(reason, before)) turnAway(reason);
    turns.letGo();
  }

  /** A block ends unnoticed as its time runs out; the others end by what is learned only. */
  function wasInForce(reason: StopReason, before: StopState): boolean {
    const until = before[reason];
    return until !== null && (reason !== "blocked" || until > clock.now());
  }

  function countUnderWay({ priority }: CallRequest, by: 1 | -1): void {
    if (priority === "send") sendsUnderWay += by;
    else othersUnderWay += by;
  }

  function permitFor(call: CallRequest, probes: readonly StopReason[]): Permit {
    const { cap, operation, priority } = call;
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
        const ended = { call: { number: slot.number, probes }, operation, outcome, now, wallNow: clock.now() };
        const [own, planned] = [identity(), capsOf(allowance)];
        const began = learned.change((state, newest) => {
          learnCaps(state, newest, ended, cap, planned, own);
          return stops.learn(state, newest, ended, own);
        });
        hooks.settled?.(call, outcome);
        if (began !== null) {
          const resource = outcome.type === "quota-used-up" ? outcome.resource : null;
          hooks.stopped?.(began, stops.state()[began] ?? clock.now(), resource);
        }
        takeIn();
      },
    };
  }

  function restart(next: Allowance, anotherKey: boolean): void {
    allowance = next;
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
        adjustCaps();
        const verdict = account.isKnown() ? stops.admit(call.operation) : "unknown";
        if (verdict !== "free" && verdict !== "probe") {
          hooks.refused?.(verdict);
          // Elsewhere it may be over.
          account.refresh();
          throw refusal(verdict);
        }
        let probes: readonly StopReason[] = [];
        let leaveLine = (): void => {};
        const entry = { operation: call.operation, turnAway };
        const join = (): void => {
          waiting.add(entry);
          leaveLine = turns.join(call, {
            go() {
              leave();
              resolve(permitFor(call, probes));
            },
          });
          turns.letGo();
        };
        function leave(): void {
          leaveLine();
          waiting.delete(entry);
          signal?.removeEventListener("abort", giveUp);
        }
        function turnAway(reason: StopReason | "unknown"): void {
          leave();
          stops.leaveProbe(probes);
          hooks.refused?.(reason);
          reject(refusal(reason));
        }
        function giveUp(): void {
          leave();
          stops.leaveProbe(probes);
          reject(signal?.reason);
          turns.letGo();
        }
        signal?.addEventListener("abort", giveUp);
        if (verdict === "free") return join();
        stops.beginProbe(call.operation, (begun) => {
          const isRefused = begun === null || typeof begun === "string";
          if (signal?.aborted === true) {
            if (!isRefused) stops.leaveProbe(begun);
            return;
          }
          if (isRefused) return turnAway(begun ?? "unknown");
          probes = begun;
          join();
        });
      }),
    state() {
      account.refresh();
      const planned = capsOf(allowance);
      const { holds } = learned.view();
      adjustCaps();
      const granted = grantedCaps(learned.view(), planned, identity(), time.now());
      const stopped = { stops: stops.state(), resources: stops.resources() };
      return limiterState({ planned, granted, slots, holds, waiting: turns.waiting, time, ...stopped });
    },
    resume: () => restart(allowance, false),
    resumeByOrder: () =>
      new Promise((resolve, reject) => {
        stops.resume(false, (ended) => (ended === null ? reject(capsUnknown()) : resolve(ended)));
        takeIn();
      }),
    retune: (next) => restart(next, true),
    close: account.close,
  };
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
