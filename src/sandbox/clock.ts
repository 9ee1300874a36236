import type { Clock } from "../model/clock.ts";

export type SandboxClock = ReturnType<typeof createSandboxClock>;
export type ClockControls = Pick<SandboxClock, "now" | "isFrozen" | "advance" | "freeze" | "thaw">;

/** `onCommand` is called after each jump, stop and start. */
export function createSandboxClock(base: Clock, start = base.now(), onCommand = () => {}) {
  const agenda = createAgenda();
  /** Sandbox time minus base time while running. */
  let offset = start - base.now();
  let frozenAt: number | null = null;
  /** During a jump the time is that of the thing being done. */
  let doing: number | null = null;
  let wake: { at: number; cancel: () => void } | null = null;
  let closed = false;

  const now = (): number => doing ?? frozenAt ?? base.now() + offset;
  const runUntil = (until: number, isJump: boolean): void => {
    const from = now();
    for (let next = agenda.nextAt(); next !== null && next <= until; next = agenda.nextAt()) {
      if (isJump) doing = Math.max(next, from);
      try {
        agenda.take()?.();
      } finally {
        doing = null;
      }
    }
  };
  const sleep = (): void => {
    wake?.cancel();
    wake = null;
  };
  const plan = (): void => {
    const next = agenda.nextAt();
    if (closed || frozenAt !== null || next === null) {
      sleep();
      return;
    }
    if (wake !== null && wake.at <= next) return;
    sleep();
    const cancel = base.after(Math.max(0, next - now()), () => {
      wake = null;
      try {
        runUntil(now(), false);
      } finally {
        plan();
      }
    });
    wake = { at: next, cancel };
  };
  return {
    now,
    after(ms: number, run: () => void): () => void {
      if (closed) return () => {};
      const cancel = agenda.add(now() + Math.max(0, ms), run);
      if (doing === null) plan();
      return cancel;
    },
    /** What falls due on the way happens in order, each at its own time. */
    advance(ms: number): void {
      const until = now() + ms;
      runUntil(until, true);
      if (frozenAt === null) offset = until - base.now();
      else frozenAt = until;
      sleep();
      plan();
      onCommand();
    },
    freeze(): void {
      frozenAt ??= now();
      plan();
      onCommand();
    },
    thaw(): void {
      if (frozenAt === null) return;
      offset = frozenAt - base.now();
      frozenAt = null;
      plan();
      onCommand();
    },
    get isFrozen(): boolean {
      return frozenAt !== null;
    },
    close(): void {
      closed = true;
      plan();
    },
  };
}

interface Entry {
  readonly at: number;
  readonly order: number;
  run: (() => void) | null;
}

const isBefore = (a: Entry, b: Entry) => a.at < b.at || (a.at === b.at && a.order < b.order);

/**
 * Things to do, soonest first; at the same time, in the order added. A binary heap: hundreds of
 * thousands of messages may be in flight, too many for a timer each or a sorted list.
 */
export function createAgenda() {
  const heap: Entry[] = [];
  let order = 0;
  const pop = (): Entry => {
    const top = heap[0] as Entry;
    const last = heap.pop() as Entry;
    if (heap.length === 0) return top;
    let at = 0;
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Entry, heap[child] as Entry))
        child += 1;
      if (!isBefore(heap[child] as Entry, last)) break;
      heap[at] = heap[child] as Entry;
      at = child;
    }
    heap[at] = last;
    return top;
  };
  const dropCancelled = (): void => {
    while (heap[0]?.run === null) pop();
  };
  return {
    add(at: number, run: () => void): () => void {
      const entry: Entry = { at, order: order++, run };
      let place = heap.push(entry) - 1;
      while (place > 0) {
        const parent = (place - 1) >> 1;
        if (!isBefore(entry, heap[parent] as Entry)) break;
        heap[place] = heap[parent] as Entry;
        place = parent;
      }
      heap[place] = entry;
      return () => {
        entry.run = null;
      };
    },
    nextAt(): number | null {
      dropCancelled();
      return heap[0]?.at ?? null;
    },
    take(): (() => void) | undefined {
      dropCancelled();
      return heap.length === 0 ? undefined : (pop().run ?? undefined);
    },
  };
}
