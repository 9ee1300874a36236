import { randomUUID } from "node:crypto";
import { type CallCount, callsKeptMs, type DayCalls, type RecentCall } from "../service-port.ts";
import { rows, type Work } from "../sql/ops.ts";
import { sql } from "../sql/sql.ts";
import { addTo, create, list, timeName } from "./state.ts";

/* The calls to the service of each day, and single ones of the last minutes: rows of `state` under their times. */

interface Sums {
  readonly [kind: string]: number;
  readonly polls: number;
  readonly others: number;
}

/** Longer than a call can count against a cap of its minute. */
const recentKeptMs = 180_000;

const daysOf = (account: string): string => `calls/${account}/`;
const recentOf = (account: string): string => `called/${account}/`;

/** The days from `from` on, earliest first. */
export function* serviceCalls(account: string, from: number): Work<readonly DayCalls[]> {
  const days = yield* list<Sums>(daysOf(account), timeName(from));
  return days.map(({ name, value: { polls, others } }) => ({ day: Number(name), polls, others }));
}

export function* addServiceCalls(counts: readonly CallCount[]): Work<void> {
  const byKey = counts.map((count) => ({ ...count, key: daysOf(count.account) + timeName(count.day) }));
  byKey.sort((a, b) => (a.key < b.key ? -1 : 1));
  for (const { key, day, polls, others } of byKey) yield* addTo<Sums>(key, { polls, others }, day + callsKeptMs);
}

/** Earliest first. */
export function* recentCalls(account: string, from: number): Work<readonly RecentCall[]> {
  const calls = yield* list<RecentCall>(recentOf(account), timeName(from));
  return calls.map(({ value }) => value);
}

export function* noteCall(account: string, call: RecentCall): Work<void> {
  const prefix = recentOf(account);
  const past = prefix + timeName(call.at - recentKeptMs);
  yield* rows(sql`DELETE FROM state WHERE key >= ${prefix} AND key < ${past}`);
  yield* create(`${prefix}${timeName(call.at)}/${randomUUID()}`, call, call.at + recentKeptMs);
}
