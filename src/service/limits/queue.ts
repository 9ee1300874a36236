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
  const lines: readonly { readonly kind: CallKind; readonly line: WaitingLine<Waiter> }[] = callKinds.map((kind) => ({
    kind,
    line: createWaitingLine<Waiter>(),
  }));
  const lineOf = (cap: CallCap, priority: CallPriority): WaitingLine<Waiter> | undefined =>
    lines.find(({ kind }) => kind.cap === cap && kind.priority === priority)?.line;
  let arrived = 0;
  let timer: { readonly at: number; readonly cancel: () => void } | null = null;

  function dispatch(): void {
    const now = time.now();
    for (;;) {
      let wakeAt = Number.POSITIVE_INFINITY;
      let next: { readonly kind: CallKind; readonly first: Waiter } | null = null;
      for (const { kind, line } of lines) {
        const first = line.first();
        if (first === null) continue;
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
      // There is a line for each kind.
      return (lineOf(cap, priority) as WaitingLine<Waiter>).join({ ...waiting, arrived });
    },
    dispatch,
    waiting: (cap, priority) => lineOf(cap, priority)?.size() ?? 0,
  };
}

interface Place<T> {
  readonly item: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

/** First in, first out; items can leave from the middle. All in O(1). */
interface WaitingLine<T> {
  /** Returns a function that removes the item; calling it twice changes nothing. */
  join(item: T): () => void;
  first(): T | null;
  size(): number;
}

/** A linked list: with an array or a Set, each item that left from the middle would slow down every `first`. */
export function createWaitingLine<T>(): WaitingLine<T> {
  let head: Place<T> | null = null;
  let tail: Place<T> | null = null;
  let size = 0;

  function join(item: T): () => void {
    const place: Place<T> = { item, before: tail, after: null };
    if (tail === null) head = place;
    else tail.after = place;
    tail = place;
    size += 1;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      size -= 1;
      if (place.before === null) head = place.after;
      else place.before.after = place.after;
      if (place.after === null) tail = place.before;
      else place.after.before = place.before;
    };
  }

  return { join, first: () => head?.item ?? null, size: () => size };
}
