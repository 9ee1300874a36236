/** Things to do at a time, soonest first; at the same time, in the order in which they were added. */
export interface Agenda {
  /** The returned function takes it back. */
  add(at: number, run: () => void): () => void;
  /** When the soonest is due; null with nothing planned. */
  nextAt(): number | null;
  /** Takes the soonest out. */
  take(): (() => void) | undefined;
}

interface Entry {
  readonly at: number;
  readonly order: number;
  run: (() => void) | null;
}

const isBefore = (a: Entry, b: Entry) => a.at < b.at || (a.at === b.at && a.order < b.order);

/** A binary heap: thousands of messages are in flight at once, and a timer for each costs too much. */
export function createAgenda(): Agenda {
  const heap: Entry[] = [];
  let order = 0;
  const pop = (): Entry => {
    const top = heap[0] as Entry;
    const last = heap.pop() as Entry;
    if (heap.length === 0) return top;
    let at = 0;
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Entry, heap[child] as Entry)) child += 1;
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
    add(at, run) {
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
    nextAt() {
      dropCancelled();
      return heap[0]?.at ?? null;
    },
    take() {
      dropCancelled();
      return heap.length === 0 ? undefined : (pop().run ?? undefined);
    },
  };
}
