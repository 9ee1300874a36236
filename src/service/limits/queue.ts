import type { Clock, SteadyTime } from "../../event/clock.ts";
import type { CallCap, CallPriority } from "../admission.ts";
import { type CallKind, callKinds } from "./slots.ts";

/** A call that waits for its turn. To let it go also takes it out of its line. */
interface Waiting {
  go(): void;
}

/**
 * Who goes next: by priority, and in one priority in order of arrival among those who may go. So a send that waits for
 * the messages cap holds up no automation run behind it, nor a poll that takes nothing from it.
 */
interface Turns {
  /** Waits at the end of its line; gives what takes it out. `letGo` must follow. */
  join(kind: CallKind, waiting: Waiting): () => void;
  /** Lets go all who may, and sets the timer for when the next may. To be called after whatever may change that. */
  letGo(): void;
  waiting(cap: CallCap, priority: CallPriority): number;
}

interface TurnsParts {
  readonly clock: Clock;
  readonly time: SteadyTime;
  /** Steady ms: now or earlier, a call of this kind may go; later, worth another look then; Infinity: when something has changed. */
  readonly readyAt: (kind: CallKind, now: number) => number;
}

/** One timer, and that only while somebody waits. */
export function createTurns({ clock, time, readyAt }: TurnsParts): Turns {
  type Waiter = Waiting & { readonly arrived: number };
  const lines: readonly { readonly kind: CallKind; readonly line: WaitingLine<Waiter> }[] = callKinds.map((kind) => ({
    kind,
    line: createWaitingLine<Waiter>(),
  }));
  const lineOf = (cap: CallCap, priority: CallPriority): WaitingLine<Waiter> | undefined =>
    lines.find(({ kind }) => kind.cap === cap && kind.priority === priority)?.line;
  let arrived = 0;
  let timer: { readonly at: number; readonly cancel: () => void } | null = null;

  function letGo(): void {
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
      letGo();
    });
    timer = { at, cancel };
  }

  return {
    join({ cap, priority }, waiting) {
      arrived += 1;
      // There is a line for each kind.
      return (lineOf(cap, priority) as WaitingLine<Waiter>).join({ ...waiting, arrived });
    },
    letGo,
    waiting: (cap, priority) => lineOf(cap, priority)?.size() ?? 0,
  };
}

interface Place<T> {
  readonly item: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

/** First come, first served; whoever waits may leave from the middle. All in O(1). */
interface WaitingLine<T> {
  /** Gives what takes the item out again; doing so twice changes nothing. */
  join(item: T): () => void;
  first(): T | null;
  size(): number;
}

/** A linked list: an array or a Set would pay for each one that left from the middle, on every look at the first. */
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
