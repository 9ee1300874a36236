import type { SubjectKey } from "./codes.ts";
import type { Db } from "./open.ts";

/**
 * Whether a message or run has an open delivery on a route, waiting or held: then the next one is held
 * behind it (promise 3). The condition is written as in the partial index `deliveries_open`.
 */
export function createHasOpen(db: Db): (subject: SubjectKey, route: number) => boolean {
  const open = db
    .prepare<[number, number], number>(
      "SELECT 1 FROM deliveries WHERE subject = ? AND route = ? AND state <= 1 AND subject IS NOT NULL LIMIT 1",
    )
    .pluck();
  return (subject, route) => open.get(subject, route) !== undefined;
}
