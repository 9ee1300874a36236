import type { Work } from "../sql/ops.ts";
import { put, values } from "./state.ts";

export type PurgedTable = "events" | "deliveries" | "history";

const keyOf = (table: PurgedTable): string => `purged/${table}`;

/**
 * The time (unix ms) before which retention may have deleted events, by receipt, deliveries, by settlement, and history. The
 * audit reports what is missing after it. Null: nothing was deleted.
 */
export function* purgedBefore(table: PurgedTable): Work<number | null> {
  const [before = null] = yield* values<number>([keyOf(table)]);
  return before;
}

/** Notes it in the transaction that deletes. It only grows: a clock that is set back brings nothing back. */
export function* notePurged(table: PurgedTable, before: number): Work<void> {
  const [known = null] = yield* values<number>([keyOf(table)], "update");
  if (known === null || known < before) yield* put(keyOf(table), before);
}
