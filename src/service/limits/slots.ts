import { type Limits, limitsFrom, type SlotKind, slotKinds } from "../../model/budget.ts";
import { type Clock, createPace, type SteadyTime } from "../../model/clock.ts";
import {
  type CallOperation,
  type CallOutcome,
  type CallRequest,
  callOperations,
} from "../endpoints.ts";
import { type Caps, mostPolls } from "./caps.ts";
import type { Probes } from "./stops.ts";

interface Slot {
  readonly operation: CallOperation;
  readonly number: number;
}

export const windowMs = 60_000;
/** How long after its end a call of unknown outcome may still reach the service. */
export const graceMs = 30_000;
/** The timeout of calls of another process, whose end is unknown. */
export const tookMs = 10_000;

export function limitsOf(caps: Caps): Limits {
  return {
    ...caps,
    poll: mostPolls(caps),
    calls: Number.POSITIVE_INFINITY,
    polling: Number.POSITIVE_INFINITY,
  };
}

export function slotKindsOf(operation: CallOperation): readonly SlotKind[] {
  if (operation === "messages") return ["requests", "calls", "messages"];
  return operation === "reads" ? ["requests", "calls", "poll", "polling"] : ["requests", "calls"];
}

export const isPaced = (kind: SlotKind): boolean => kind === "messages" || kind === "poll";

export function createSlots(initial: Limits) {
  const windows = Object.fromEntries(
    slotKinds.map((kind) => [
      kind,
      createSlotWindow(
        initial[kind],
        isPaced(kind) ? createPace(...spread(initial[kind])) : undefined,
      ),
    ]),
  ) as Record<SlotKind, ReturnType<typeof createSlotWindow>>;
  let newest = 0;

  return {
    /**
     * At most `now`: a call may go. Later: look again then. Infinity: not before a call in flight
     * ends.
     */
    readyAt(operation: CallOperation, now: number): number {
      let at = now;
      for (const slot of slotKindsOf(operation)) at = Math.max(at, windows[slot].freeAt(now));
      return at;
    },
    take(operation: CallOperation, now: number): Slot {
      for (const slot of slotKindsOf(operation)) windows[slot].take(now);
      newest += 1;
      return { operation, number: newest };
    },
    newest: (): number => newest,
    end({ operation }: Slot, now: number, how: CallOutcome["type"]): void {
      // The service counts calls that it refused because of their key.
      const isBad = how === "unauthenticated" || how === "blocked";
      for (const slot of slotKindsOf(operation)) {
        const window = windows[slot];
        const isOver = slot === "calls" || slot === "polling" ? !isBad : how === "not-sent";
        // The pace stays taken, so as not to hammer an unreachable service.
        if (isOver) window.undo();
        else window.giveBack(now + windowMs + (how === "unknown" ? graceMs : 0));
      }
    },
    /** A call of an earlier process. */
    count(operation: CallOperation, endedAt: number): void {
      for (const slot of slotKindsOf(operation))
        if (slot !== "calls" && slot !== "polling") windows[slot].count(endedAt + windowMs);
    },
    setLimits(next: Limits, now: number): void {
      for (const slot of slotKinds) windows[slot].setLimit(next[slot], now);
    },
    inFlight: () => ({ all: windows.calls.inFlight(), polls: windows.polling.inFlight() }),
    used: (now: number): Limits => limitsFrom((slot) => windows[slot].used(now)),
  };
}

/** `pace`: of slots that are also spread over the minute. */
export function createSlotWindow(initial: number, pace?: ReturnType<typeof createPace>) {
  let limit = initial;
  let inFlight = 0;
  /** When slots of ended calls come back, at most as many as the cap. */
  let ended: number[] = [];

  function used(now: number): number {
    if (ended.some((at) => at <= now)) ended = ended.filter((at) => at > now);
    return inFlight + ended.length;
  }

  return {
    setLimit(next: number, now: number): void {
      if (next !== limit) pace?.change(...spread(next), now);
      limit = next;
    },
    used,
    inFlight: (): number => inFlight,
    freeAt(now: number): number {
      const at = used(now) < limit ? now : Math.min(...ended);
      return Math.max(at, pace?.readyAt() ?? now);
    },
    take(now: number): void {
      inFlight += 1;
      pace?.take(now);
    },
    giveBack(at: number): void {
      inFlight -= 1;
      ended.push(at);
    },
    undo(): void {
      inFlight -= 1;
    },
    /** A call that another process made holds a slot until `at`. */
    count: (at: number): void => void ended.push(at),
  };
}

/** A burst of a sixth, then an even pace ("Spread sends over time", messaging-service-api.md). */
export const spread = (perMinute: number) =>
  [60_000 / Math.max(perMinute, 1), Math.ceil(perMinute / 6)] as const;

/** One timer, for the earliest of the steady times that it is set for. */
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
  readonly call: ProbingCall;
  readonly arrived: number;
  go(): void;
  refuse(error: unknown): void;
}

export interface ProbingCall extends CallRequest {
  readonly probes: Probes;
}

interface CallQueueParts {
  readonly clock: Clock;
  readonly time: SteadyTime;
  readonly readyAt: (operation: CallOperation, now: number) => number;
}

/**
 * By priority, then by arrival among those that are ready: a send that waits for the messages cap
 * delays nothing behind it.
 */
export function createCallQueue({ clock, time, readyAt }: CallQueueParts) {
  /** Polls last. */
  const lines = new Map(callOperations.map((operation) => [operation, new Set<WaitingCall>()]));
  const alarm = createAlarm(clock, time, dispatch);
  let arrived = 0;

  function dispatch(): void {
    const now = time.now();
    for (;;) {
      let wakeAt = Number.POSITIVE_INFINITY;
      let next: WaitingCall | null = null;
      for (const [operation, line] of lines) {
        const [first] = line;
        if (first === undefined) continue;
        const at = readyAt(operation, now);
        if (at > now) wakeAt = Math.min(wakeAt, at);
        else if (next === null || (operation !== "reads" && first.arrived < next.arrived))
          next = first;
      }
      if (next === null) {
        if (wakeAt === Number.POSITIVE_INFINITY) alarm.cancel();
        else alarm.set(wakeAt);
        return;
      }
      next.go();
    }
  }

  return {
    /**
     * Resolves with what `dispatched` returns. Calls `left` and rejects when it is refused or its
     * signal is aborted.
     */
    wait<T>(call: ProbingCall, dispatched: () => T, left: () => void): Promise<T> {
      const { signal } = call;
      const line = lines.get(call.operation);
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
        const waiting = { call, arrived, go, refuse };
        line?.add(waiting);
        signal?.addEventListener("abort", giveUp);
        dispatch();
      });
    },
    dispatch,
    waiting: (operation: CallOperation): number => lines.get(operation)?.size ?? 0,
    /** Those for which `refusalOf` has an error. */
    refuse(refusalOf: (call: ProbingCall) => Error | null): void {
      for (const { call, refuse } of [...lines.values()].flatMap((line) => [...line])) {
        const error = refusalOf(call);
        if (error !== null) refuse(error);
      }
    },
  };
}
