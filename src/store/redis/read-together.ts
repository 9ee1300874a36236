export interface ReadTogether<T> {
  /** What was read of these seqs; those that are not stored are left out. Rejects as `read` does. */
  of(seqs: readonly number[]): Promise<ReadonlyMap<number, T>>;
  /** What was read is changed: nobody is shown it any more. */
  forget(): void;
}

export interface ReadTogetherLimits {
  /** Ms for which what was read serves others, at least; twice that at most. */
  readonly ms: number;
  /** Sum of the weights that are kept, at most twice. */
  readonly weight: number;
}

/**
 * Many who listen read the same events at about the same time: each is asked for once, and lies in memory for moments.
 * `elapsed` is in ms.
 */
export function createReadTogether<T>(
  read: (seqs: readonly number[]) => Promise<ReadonlyMap<number, T>>,
  weigh: (one: T) => number,
  limits: ReadTogetherLimits,
  elapsed: () => number = () => performance.now(),
): ReadTogether<T> {
  type Batch = Promise<ReadonlyMap<number, T>>;
  let recent = new Map<number, Batch>();
  let older = new Map<number, Batch>();
  let since = elapsed();
  let weight = 0;

  function turnOver(): void {
    const age = elapsed() - since;
    if (age < limits.ms && weight < limits.weight) return;
    older = age < 2 * limits.ms ? recent : new Map();
    recent = new Map();
    since = elapsed();
    weight = 0;
  }

  function ask(seqs: readonly number[]): void {
    if (seqs.length === 0) return;
    const into = recent;
    const batch = read(seqs);
    for (const seq of seqs) into.set(seq, batch);
    batch.then(
      (found) => {
        if (into === recent) for (const one of found.values()) weight += weigh(one);
      },
      () => {
        for (const seq of seqs) into.delete(seq);
      },
    );
  }

  return {
    forget() {
      recent = new Map();
      older = new Map();
      weight = 0;
    },
    async of(seqs) {
      turnOver();
      const known = (seq: number) => recent.get(seq) ?? older.get(seq);
      ask(seqs.filter((seq) => known(seq) === undefined));
      const batches = await Promise.all(seqs.map(known));
      return new Map(
        seqs.flatMap((seq, index) => {
          const one = batches[index]?.get(seq);
          return one === undefined ? [] : [[seq, one] as const];
        }),
      );
    },
  };
}
