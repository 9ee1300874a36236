interface Place<T> {
  readonly item: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

/** First come, first served; whoever waits may leave from the middle. All in O(1). */
export interface WaitingLine<T> {
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
