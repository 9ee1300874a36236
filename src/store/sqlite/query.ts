import { phoneMatches } from "../../model/mask.ts";
import type { SeqBounds } from "../views.ts";
import type { Db } from "./file.ts";

/*
 * Why some statements say `+?` for `?`: better-sqlite3 builds SQLite with STAT4, so SQLite compiles a statement again at every
 * call when its plan may depend on a bound value (a range, ORDER BY with LIMIT, min). That takes 4 to 10 µs, ten times as long
 * as the look-up. The plus hides the value from the planner. `bench/statements.ts` lists the statements that need it.
 */

/** Reads the smallest and the greatest seq of a table. */
export function createBounds(db: Db, table: "events" | "messages" | "runs" | "sends" | "hydration_passes" | "requests"): () => SeqBounds {
  const bounds = db.prepare<[], { oldest: number; newest: number } | { oldest: null }>(
    `SELECT (SELECT min(seq) FROM ${table}) AS oldest, (SELECT max(seq) FROM ${table}) AS newest`,
  );
  return () => {
    const found = bounds.get();
    return found === undefined || found.oldest === null ? null : found;
  };
}

/** Adds the function `phone_ends(wamid, digits)`. */
export function addPhoneEnds(db: Db): void {
  db.function("phone_ends", { deterministic: true }, (wamid, digits) => (phoneMatches(String(wamid), String(digits)) ? 1 : 0));
}

/** A condition and its value, which its last `@name` stands for. `true`: a condition without a value. Undefined or false: no condition. */
export type Condition = readonly [sql: string, value: number | string | boolean | null | undefined];

/** Joins conditions. `values` also has the ones that `others` gives. */
export function joinConditions(conditions: readonly Condition[], others: Readonly<Record<string, number | string>> = {}) {
  const values: Record<string, number | string | null> = { ...others };
  const given: string[] = [];
  for (const [sql, value] of conditions) {
    if (value === undefined || value === false) continue;
    given.push(sql);
    const name = /@(\w+)\W*$/.exec(sql)?.[1];
    if (value !== true && name !== undefined) values[name] = value;
  }
  return { where: given.length === 0 ? "TRUE" : given.join(" AND "), values };
}
