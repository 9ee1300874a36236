export interface Journal {
  changed(kind: string, id: string, record: object | null): void;
}

export interface Stored {
  readonly id: string;
  readonly account: string;
}

interface TableOptions<T> {
  /** A second key, unique within an account. */
  readonly keyOf?: (record: T) => string;
  /**
   * Beyond it the oldest that are over are forgotten, in batches, as shifting a long list moves all
   * of it.
   */
  readonly most?: number;
  readonly isOver?: (record: T) => boolean;
}

export type Table<T extends Stored> = ReturnType<typeof createTable<T>>;

/** In order of ids. Records are changed in place, but for their id, account and second key. */
export function createTable<T extends Stored>(
  kind: string,
  journal: Journal,
  { keyOf, most = Number.POSITIVE_INFINITY, isOver = () => true }: TableOptions<T> = {},
) {
  const byId = new Map<string, T>();
  const byKey = new Map<string, T>();
  const byAccount = new Map<string, T[]>();
  const drop = (record: T): void => {
    byId.delete(record.id);
    if (keyOf !== undefined) byKey.delete(`${record.account}\0${keyOf(record)}`);
    journal.changed(kind, record.id, null);
  };
  const batch = most === Number.POSITIVE_INFINITY ? 0 : most >> 6;
  let forgetAt = most + batch;
  const forgetOldest = (): void => {
    for (const record of byId.values()) {
      if (byId.size <= most) break;
      if (isOver(record)) drop(record);
    }
    for (const [account, list] of byAccount)
      byAccount.set(
        account,
        list.filter(({ id }) => byId.has(id)),
      );
    // All that is not over was looked at: not again for each one more.
    forgetAt = Math.max(most, byId.size) + batch;
  };
  /** Stores a new record, or one that was changed. */
  const put = (record: T): T => {
    if (!byId.has(record.id)) {
      byId.set(record.id, record);
      const list = byAccount.get(record.account) ?? [];
      list.push(record);
      byAccount.set(record.account, list);
      if (keyOf !== undefined) byKey.set(`${record.account}\0${keyOf(record)}`, record);
    }
    journal.changed(kind, record.id, record);
    if (byId.size > forgetAt) forgetOldest();
    return record;
  };
  return {
    kind,
    get: (id: string): T | undefined => byId.get(id),
    of(account: string, id: string): T | undefined {
      const record = byId.get(id);
      return record?.account === account ? record : undefined;
    },
    find: (account: string, key: string): T | undefined => byKey.get(`${account}\0${key}`),
    /** For second keys that are secrets: they name their account. */
    findAnywhere(key: string): T | undefined {
      for (const account of byAccount.keys()) {
        const found = byKey.get(`${account}\0${key}`);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    put,
    /** What was forgotten meanwhile is not stored again. */
    update(record: T, change: Partial<T>): T {
      Object.assign(record, change);
      return byId.has(record.id) ? put(record) : record;
    },
    delete(id: string): void {
      const record = byId.get(id);
      if (record === undefined) return;
      drop(record);
      const list = byAccount.get(record.account) ?? [];
      list.splice(list.indexOf(record), 1);
    },
    /** Oldest first. Not to be kept over changes. */
    list: (account: string): readonly T[] => byAccount.get(account) ?? [],
    all: () => byId.values(),
    get size(): number {
      return byId.size;
    },
  };
}

/** Place of the first id greater than `id`, which need not be there. */
export function firstAfter(list: readonly { readonly id: string }[], id: string): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((list[middle]?.id ?? "") > id) to = middle;
    else from = middle + 1;
  }
  return from;
}
