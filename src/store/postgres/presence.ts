import { state } from "../schema/tables.ts";
import { rows, type Work } from "../sql/ops.ts";
import { as, select, sql, typed } from "../sql/sql.ts";
import { put } from "../work/state.ts";

/** A process that uses the database of a relay. */
export interface Presence {
  /** Unique per process. */
  readonly id: string;
  readonly role: "receive" | "work" | "both" | "command";
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** Unix ms it was started. */
  readonly since: number;
}

/** How often a process shows that it is there, and after which silence it counts as dead or cut off. */
export const presentEveryMs = 2_000;
const silentAfterMs = 10_000;
const forgottenAfterMs = 3_600_000;

const prefix = "process/";
const s = as(state, "s");
const databaseNow = typed<number>(sql`extract(epoch FROM clock_timestamp())::float8 * 1000`);

export function* notePresence(presence: Presence, now: number): Work<void> {
  yield* put(`${prefix}${presence.id}`, { ...presence, at: now }, now + forgottenAfterMs);
}

export function* endPresence({ id }: Presence): Work<void> {
  yield* put(`${prefix}${id}`, null);
}

/** The processes that are there, newest first. */
export function* readPresences(): Work<Presence[]> {
  // "0" follows "/".
  const found = yield* rows(select({ value: s.value, now: databaseNow })`FROM state s WHERE s.key >= ${prefix} AND s.key < ${"process0"}`);
  return found
    .map(({ value, now }) => ({ ...(JSON.parse(value) as Presence & { readonly at: number }), now }))
    .filter(({ at, now }) => at > now - silentAfterMs)
    .map(({ at: _, now: __, ...presence }) => presence)
    .sort((a, b) => b.since - a.since);
}
