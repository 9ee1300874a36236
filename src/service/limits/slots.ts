import { type Limits, limitsFrom, type SlotKind, slotKinds } from "../../model/budget.ts";
import type { Clock, SteadyTime } from "../../model/clock.ts";
import { type CallCap, type CallOperation, type CallPriority, type CallRequest, callPriorities } from "../admission.ts";
import { type Caps, quotasOf } from "./caps.ts";

export interface CallKind {
  readonly cap: CallCap;
  readonly priority: CallPriority;
}

/** All kinds of calls, those of higher priority first. */
export const callKinds: readonly CallKind[] = callPriorities.flatMap((priority) => [
  { cap: "messages", priority },
  { cap: "requests", priority },
]);

/** How a call ended. `lost`: unknown whether and when the service counted it; `not-sent`: it certainly did not. */
export type SlotEnd = "answered" | "lost" | "not-sent";

export interface Slot {
  readonly kind: CallKind;
  /** Of the call, in order of dispatch, from 1. */
  readonly number: number;
}

/** Grants slots of an account. Times are steady ms. */
export interface Slots {
  /** Now or earlier: a call of this kind may go. Later: look again then. Infinity: not before a call in flight ends. */
  readyAt(kind: CallKind, now: number): number;
  /** Takes a slot. Only when `readyAt` allows it. */
  take(kind: CallKind, now: number): Slot;
  /** `isBad`: the service refused the call because of its key. */
  end(slot: Slot, now: number, how: SlotEnd, isBad: boolean): void;
  setCaps(caps: Caps): void;
  used(cap: CallCap, now: number): number;
  limit(cap: CallCap): number;
}

/** The service counts in windows of this length. */
const windowMs = 60_000;

export function limitsOf(caps: Caps): Limits {
  return { ...caps, ...quotasOf(caps), calls: Number.POSITIVE_INFINITY, otherCalls: Number.POSITIVE_INFINITY };
}

export const slotKindsOf = byKind(({ cap, priority }): readonly SlotKind[] => [
  "requests",
  "calls",
  ...(cap === "messages" ? (["messages"] as const) : []),
  ...(priority === "send" ? [] : (["interactive", "otherCalls"] as const)),
  ...(priority === "poll" ? (["poll"] as const) : []),
]);

/**
 * Slots of one process. Messages and polls are also paced; interactive calls and automation runs go as soon as there is a slot.
 * `graceMs`: how long a call of unknown outcome may still be in flight.
 */
export function createSlots(initial: Limits, graceMs: number) {
  let limits = initial;
  const windows = Object.fromEntries(slotKinds.map((kind) => [kind, createSlotWindow(initial[kind])])) as Record<
    SlotKind,
    ReturnType<typeof createSlotWindow>
  >;
  const paces = { messages: createPace(initial.messages), poll: createPace(initial.poll) };
  const pacesOf = ({ cap, priority }: CallKind): readonly ReturnType<typeof createPace>[] => [
    ...(cap === "messages" ? [paces.messages] : []),
    ...(priority === "poll" ? [paces.poll] : []),
  ];
  let newest = 0;

  return {
    readyAt(kind: CallKind, now: number): number {
      let at = now;
      for (const slot of slotKindsOf(kind)) at = Math.max(at, windows[slot].freeAt(now));
      for (const pace of pacesOf(kind)) at = Math.max(at, pace.readyAt());
      return at;
    },
    take(kind: CallKind, now: number): Slot {
      for (const slot of slotKindsOf(kind)) windows[slot].take();
      for (const pace of pacesOf(kind)) pace.take(now);
      newest += 1;
      return { kind, number: newest };
    },
    newest: (): number => newest,
    end({ kind }: Slot, now: number, how: SlotEnd, isBad: boolean): void {
      for (const slot of slotKindsOf(kind)) {
        const window = windows[slot];
        const isOver = slot === "calls" || slot === "otherCalls" ? !isBad : how === "not-sent";
        // The pace stays taken, so as not to hammer an unreachable service.
        if (isOver) window.undo();
        else if (how === "lost") window.giveBack(now + windowMs + graceMs, true);
        else window.giveBack(now + windowMs, false);
      }
    },
    /** Counts an earlier process's call that ended by `endedAt`. Call it in their order, before any `take`. */
    count(kind: CallKind, endedAt: number): void {
      for (const slot of slotKindsOf(kind)) {
        const window = windows[slot];
        window.take();
        // With the lost calls, whose slots come back later than those of calls that end from now on.
        if (slot === "calls" || slot === "otherCalls") window.undo();
        else window.giveBack(endedAt + windowMs, true);
      }
    },
    setLimits(next: Limits, now: number): void {
      if (next.messages !== limits.messages) paces.messages.setRate(next.messages, now);
      if (next.poll !== limits.poll) paces.poll.setRate(next.poll, now);
      for (const slot of slotKinds) windows[slot].setLimit(next[slot]);
      limits = next;
    },
    used: (now: number): Limits => limitsFrom((slot) => windows[slot].used(now)),
  };
}

function byKind<T>(make: (kind: CallKind) => T): (kind: CallKind) => T {
  const made = new Map(callKinds.map((kind) => [`${kind.cap} ${kind.priority}`, make(kind)]));
  return ({ cap, priority }) => made.get(`${cap} ${priority}`) as T;
}

/** One count: at most `limit` slots held at any time. */
export function createSlotWindow(initial: number) {
  let limit = initial;
  let inFlight = 0;
  // Two lists, because slots of lost calls come back later: each list is in order by itself.
  const ended: number[] = [];
  const lost: number[] = [];

  function used(now: number): number {
    for (const times of [ended, lost]) while ((times[0] ?? Number.POSITIVE_INFINITY) <= now) times.shift();
    return inFlight + ended.length + lost.length;
  }

  return {
    /** With a smaller limit, more slots may be held than allowed; then none is free until enough have come back. */
    setLimit(next: number): void {
      limit = next;
    },
    used,
    /** Now or earlier: a slot is free. Later: look again then. Infinity: not before a call in flight ends. */
    freeAt: (now: number): number =>
      used(now) < limit ? now : Math.min(ended[0] ?? Number.POSITIVE_INFINITY, lost[0] ?? Number.POSITIVE_INFINITY),
    take(): void {
      inFlight += 1;
    },
    /** A call ended; its slot comes back at `at`, never earlier than an earlier one with the same `isLost`. */
    giveBack(at: number, isLost: boolean): void {
      inFlight -= 1;
      (isLost ? lost : ended).push(at);
    },
    /** A call was never sent; its slot is free at once. */
    undo(): void {
      inFlight -= 1;
    },
  };
}

/**
 * A burst of a sixth of `perMinute`, then an even pace: within any w ms at most `ceil(perMinute / 6) + perMinute * w /
 * 60000` go ("Spread sends over time", messaging-service-api.md, "Responses at the limit").
 */
export function createPace(initial: number) {
  let interval = 0;
  let saved = 0;
  // The generic cell rate algorithm: one number, the time at which the whole burst is available again.
  let fullAt = 0;
  function setInterval(perMinute: number): void {
    interval = 60_000 / Math.max(perMinute, 1);
    saved = Math.ceil(perMinute / 6) * interval;
  }
  setInterval(initial);
  return {
    /** When the next call may go; now or earlier: at once. Rounding errors must not cost a whole millisecond. */
    readyAt: (): number => Math.ceil(fullAt + interval - saved - 1e-6),
    take(now: number): void {
      fullAt = Math.max(fullAt, now) + interval;
    },
    /** Calls that went before count on. */
    setRate(perMinute: number, now: number): void {
      const taken = Math.max(0, fullAt - now) / interval;
      setInterval(perMinute);
      fullAt = now + taken * interval;
    },
  };
}

/** One timer, for the earliest of the times (steady ms) that it is set for. */
export function createAlarm(clock: Clock, time: SteadyTime, ring: () => void) {
  let next: { readonly at: number; readonly cancel: () => void } | null = null;
  const cancel = (): void => {
    next?.cancel();
    next = null;
  };
  return {
    cancel,
    set(at: number): void {
      if (next !== null && next.at <= at) return;
      cancel();
      const fire = (): void => {
        next = null;
        ring();
      };
      next = { at, cancel: clock.after(Math.max(0, at - time.now()), fire) };
    },
  };
}

interface WaitingCall {
  readonly operation: CallOperation;
  readonly arrived: number;
  /** Both remove it from its line. */
  go(): void;
  refuse(error: unknown): void;
}

interface CallQueueParts {
  readonly clock: Clock;
  readonly time: SteadyTime;
  /** As `readyAt` of slots. */
  readonly readyAt: (kind: CallKind, now: number) => number;
}

/**
 * Orders calls by priority, and within a priority by arrival among those that are ready. So a send that waits for the
 * messages cap delays neither an automation run behind it nor a poll. Has one timer, and only while calls wait.
 */
export function createCallQueue({ clock, time, readyAt }: CallQueueParts) {
  /** In the order of arrival. */
  const lines = callKinds.map((kind) => ({ kind, line: new Set<WaitingCall>() }));
  const lineOf = ({ cap, priority }: CallKind): Set<WaitingCall> | undefined =>
    lines.find(({ kind }) => kind.cap === cap && kind.priority === priority)?.line;
  const alarm = createAlarm(clock, time, dispatch);
  let arrived = 0;

  /** Call it after every change that can make a call ready. */
  function dispatch(): void {
    const now = time.now();
    for (;;) {
      let wakeAt = Number.POSITIVE_INFINITY;
      let next: { readonly kind: CallKind; readonly first: WaitingCall } | null = null;
      for (const { kind, line } of lines) {
        const [first] = line;
        if (first === undefined) continue;
        const at = readyAt(kind, now);
        if (at > now) wakeAt = Math.min(wakeAt, at);
        else if (next === null || (kind.priority === next.kind.priority && first.arrived < next.first.arrived)) next = { kind, first };
      }
      if (next === null) {
        if (wakeAt === Number.POSITIVE_INFINITY) alarm.cancel();
        else alarm.set(wakeAt);
        return;
      }
      next.first.go();
    }
  }

  return {
    /**
     * Waits in its line, and resolves with what `dispatched` returns. Calls `left` and rejects when it is refused, or with the
     * reason of its signal.
     */
    wait<T>(call: CallRequest, dispatched: () => T, left: () => void): Promise<T> {
      const { operation, signal } = call;
      const line = lineOf(call);
      arrived += 1;
      return new Promise((resolve, reject) => {
        const leave = (): void => {
          line?.delete(waiting);
          signal?.removeEventListener("abort", giveUp);
        };
        const refuse = (error: unknown): void => {
          leave();
          left();
          reject(error);
        };
        const giveUp = (): void => {
          refuse(signal?.reason);
          dispatch();
        };
        const go = (): void => {
          leave();
          resolve(dispatched());
        };
        const waiting = { operation, arrived, go, refuse };
        line?.add(waiting);
        signal?.addEventListener("abort", giveUp);
        dispatch();
      });
    },
    dispatch,
    waiting: (kind: CallKind): number => lineOf(kind)?.size ?? 0,
    /** Refuses the waiting calls that `refusalOf` has an error for; null: it goes on waiting. */
    refuse(refusalOf: (operation: CallOperation) => Error | null): void {
      for (const call of lines.flatMap(({ line }) => [...line])) {
        const error = refusalOf(call.operation);
        if (error !== null) call.refuse(error);
      }
    },
  };
}
