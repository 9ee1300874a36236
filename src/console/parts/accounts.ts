import { useLive } from "../app/live.tsx";
import type { Column } from "./table.tsx";

interface OfAccount {
  /** Empty for an event of a business number that no account has. */
  readonly account: string;
}

/**
 * The columns with that of the account before the last one, where there are several: those of the
 * settings, and those of rows that the settings no longer have.
 */
export function useAccountColumn<Row extends OfAccount>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): readonly Column<Row>[] {
  const { accounts } = useLive();
  const all = new Set([...accounts, ...rows.map(({ account }) => account)]);
  all.delete("");
  return all.size < 2
    ? columns
    : columns.toSpliced(-1, 0, { title: "Account", cell: ({ account }) => account });
}
