import type { Work } from "../sql/ops.ts";
import { values } from "../work/state.ts";

const kinds = ["events", "deliveries", "history"] as const;

/**
 * The times (unix ms) before which retention may have deleted events, by receipt, deliveries, by settlement, and history.
 * Null: it deleted none.
 */
export type Purged = Readonly<Record<(typeof kinds)[number], number | null>>;

/** Retention notes its times (work/retention.ts). The audit reports what is missing after them. */
export function* readPurged(): Work<Purged> {
  const times = yield* values<number>(kinds.map((kind) => `purged/${kind}`));
  return Object.fromEntries(kinds.map((kind, place) => [kind, times[place] ?? null])) as Purged;
}
