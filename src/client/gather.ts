/** An item waits this long for others to go with, in milliseconds: a source that is still at work is not waited for. */
const lingerMs = 20;

export interface GatherLimits {
  readonly items: number;
  readonly length: number;
}

/**
 * Puts what a source gives into groups: as many as go, or as there are by now. Nothing is asked of the source while a group
 * is in hand. Left early, it lets the source end too.
 */
export async function* gather(
  source: Iterable<string> | AsyncIterable<string>,
  { items, length }: GatherLimits,
): AsyncGenerator<string[], void> {
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let coming: Promise<IteratorResult<string>> | null = null;
  let isOver = false;
  try {
    while (!isOver) {
      const group: string[] = [];
      let size = 0;
      let late: Promise<"late"> | null = null;
      let timer: ReturnType<typeof setTimeout> | undefined;
      while (group.length < items && size < length) {
        coming ??= Promise.resolve(iterator.next());
        const got: IteratorResult<string> | "late" = late === null ? await coming : await Promise.race([coming, late]);
        if (got === "late") break;
        coming = null;
        if (got.done === true) {
          isOver = true;
          break;
        }
        group.push(got.value);
        size += got.value.length;
        late ??= new Promise((resolve) => {
          timer = setTimeout(resolve, lingerMs, "late");
        });
      }
      clearTimeout(timer);
      if (group.length > 0) yield group;
    }
  } finally {
    // Not waited for: a source that waits for something else would hold up whoever leaves.
    coming?.catch(() => {});
    if (!isOver) Promise.resolve(iterator.return?.()).catch(() => {});
  }
}
