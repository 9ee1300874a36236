import type { Clock, SteadyTime } from "../../model/clock.ts";
import type { CallCap, CallPriority } from "../admission.ts";
import { type CallKind, callKinds } from "./slots.ts";

/** `go` dispatches the call and removes it from its line. */
interface Waiting {
  go(): void;
}

/**
 * Orders calls by priority, and within a priority by arrival among those that are ready. So a send that waits for the
 * messages cap delays neither an automation run behind it nor a poll.
 */
interface CallQueue {
  /** Joins the end of its line; returns a function that removes it. Call `dispatch` next. */
  join(kind: CallKind, waiting: Waiting): () => void;
  /** Dispatches all ready calls, and sets a timer for the next. Call it after every change that can make a call ready. */
  dispatch(): void;
  waiting(cap: CallCap, priority: CallPriority): number;
}

interface CallQueueParts {
  readonly clock: Clock;
  readonly time: SteadyTime;
  /** Steady ms. Now or earlier: a call of this kind may go. Later: look again then. Infinity: look again after a change. */
  readonly readyAt: (kind: CallKind, now: number) => number;
}

/** Has one timer, and only while calls wait. */
export function createCallQueue({ clock, time, readyAt }: CallQueueParts): CallQueue {
  type Waiter = Waiting & { readonly arrived: number };
  /** In the order of arrival. */
  const lines = callKinds.map((kind) => ({ kind, line: new Set<Waiter>() }));
  const lineOf = (cap: CallCap, priority: CallPriority): Set<Waiter> | undefined =>
    lines.find(({ kind }) => kind.cap === cap && kind.priority === priority)?.line;
  let arrived = 0;
  let timer: { readonly at: number; readonly cancel: () => void } | null = null;

  function dispatch(): void {
    const now = time.now();
    for (;;) {
      let wakeAt = Number.POSITIVE_INFINITY;
      let next: { readonly kind: CallKind; readonly first: Waiter } | null = null;
      for (const { kind, line } of lines) {
        const [first] = line;
        if (first === undefined) continue;
        const at = readyAt(kind, now);
        if (at > now) wakeAt = Math.min(wakeAt, at);
        else if (next === null || (kind.priority === next.kind.priority && first.arrived < next.first.arrived)) next = { kind, first };
      }
      if (next === null) {
        wake(wakeAt, now);
        return;
      }
      next.first.go();
    }
  }

  function wake(at: number, now: number): void {
    const isSet = timer !== null && timer.at > now && timer.at <= at;
    if (isSet && at !== Number.POSITIVE_INFINITY) return;
    timer?.cancel();
    timer = null;
    if (at === Number.POSITIVE_INFINITY) return;
    const cancel = clock.after(at - now, () => {
      timer = null;
      dispatch();
    });
    timer = { at, cancel };
  }

  return {
    join({ cap, priority }, waiting) {
      arrived += 1;
      const line = lineOf(cap, priority);
      const waiter = { ...waiting, arrived };
      line?.add(waiter);
      return () => void line?.delete(waiter);
    },
    dispatch,
    waiting: (cap, priority) => lineOf(cap, priority)?.size ?? 0,
  };
}
