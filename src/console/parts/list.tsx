import { useState } from "preact/hooks";
import { errorText } from "../app/api.ts";
import { useData } from "../app/data.ts";
import { reportError } from "../app/session.tsx";

export interface ListPage<Row, Next> {
  readonly data: readonly Row[];
  readonly next: Next | null;
}

interface List<Row> {
  readonly rows: readonly Row[];
  readonly problem: string | null;
  readonly isLoading: boolean;
  /** Null: nothing older exists. */
  readonly more: (() => void) | null;
  reload(): void;
}

/** Its first page is read again this often, until somebody reads older ones. */
const refreshMs = 5_000;

/**
 * A list that grows by one page at a time. A short page with a next one is followed, up to a full
 * page.
 */
export function useList<Row, Next>(
  read: (before: Next | undefined) => Promise<ListPage<Row, Next>>,
  key: string,
): List<Row> {
  const [older, setOlder] = useState<{
    key: string;
    first: unknown;
    rows: readonly Row[];
    next: Next | null;
    problem: string | null;
  } | null>(null);
  const [isReading, setReading] = useState(false);
  const first = useData(() => read(undefined), key, older?.key === key ? null : refreshMs);
  // Pages of another filter, or of before a reload, do not belong to these rows.
  const current = older !== null && older.key === key && older.first === first.data ? older : null;
  const next = current === null ? (first.data?.next ?? null) : current.next;
  const rows = [...(first.data?.data ?? []), ...(current?.rows ?? [])];

  async function more(): Promise<void> {
    if (next === null || isReading) return;
    setReading(true);
    const base = { key, first: first.data };
    try {
      const page = await read(next);
      setOlder({
        ...base,
        rows: [...(current?.rows ?? []), ...page.data],
        next: page.next,
        problem: null,
      });
    } catch (error) {
      reportError(error);
      setOlder({ ...base, rows: current?.rows ?? [], next, problem: errorText(error) });
    } finally {
      setReading(false);
    }
  }

  return {
    rows,
    problem: first.problem ?? current?.problem ?? null,
    isLoading: (first.isLoading && first.data === null) || isReading,
    more: next === null ? null : () => void more(),
    reload: first.reload,
  };
}

export function More({ list }: { list: Pick<List<unknown>, "more" | "isLoading"> }) {
  if (list.more === null) return null;
  return (
    <button type="button" class="more" onClick={list.more} disabled={list.isLoading}>
      {list.isLoading ? "Loading…" : "Show older"}
    </button>
  );
}
