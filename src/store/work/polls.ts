import type {
  ClaimedPoll,
  PollClaim,
  PollCounts,
  PollQuery,
  SettledPoll,
} from "../../model/poll.ts";
import type { MessageState } from "../../model/tracking.ts";
import { polls, type RowOf, subjects, wherePolled, whereUnreadable } from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  first,
  look,
  removal,
  remove,
  rows,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { allOf, as, pick, raw, type Sql, select, sql, typed } from "../sql/sql.ts";
import { lockSubjects, type SubjectRow, stateOfRow } from "./subject-rows.ts";

type PollRow = RowOf<typeof polls>;

/** Counting more would block the thread that receives for over 20 ms. */
const mostCounted = 20_000;
const lastRank = 31;

const p = as(polls, "p");
const s = as(subjects, "s");
const firstOfRank = look(polls, ["account", "rank"], ["rank", "next_at"], {
  order: "next_at",
  where: wherePolled,
});
const due = select({
  ...pick(p, "message", "since", "rank", "polls", "failures", "misses"),
  ...pick(s, "status", "error", "times"),
  dueAt: typed<number>(p.next_at),
  polledAt: p.answered_at,
  wamid: s.name,
  messageId: typed<string>(s.service_id),
  readAt: s.polled_at,
});
const count = select({ n: typed<number>(sql`count(*)`) });
/** Another process claims the rows that it has locked. */
const claiming = raw("", "FOR UPDATE OF p SKIP LOCKED");

const ownPoll = look(polls, ["message"], ["message", "since", "next_at", "polls"], {
  lock: "update",
});
const leased = change(polls, ["next_at"], { isLocked: true });
const again = change(polls, ["next_at", "rank", "polls", "failures", "misses", "answered_at"], {
  isLocked: true,
});
const over = removal(polls, { isLocked: true });
const ended = change(polls, ["next_at", "polls", "answered_at"], { isLocked: true });
const missing = change(subjects, ["missing"], { isLocked: true });

/** Lower ranks first. No other process gets the same messages until the lease expires. */
export function* claimPolls({
  account,
  now,
  dueBy,
  after,
  limit,
  leaseMs,
}: PollClaim): Work<readonly ClaimedPoll[]> {
  const until = now + leaseMs;
  const claimed: ClaimedPoll[] = [];
  for (const { rank, by } of yield* dueRanks(account, dueBy, after)) {
    if (claimed.length >= limit) break;
    const found = yield* rows(
      due`FROM polls p JOIN subjects s ON s.seq = p.message
        WHERE p.account = ${account} AND p.rank = ${rank} AND p.next_at <= ${by} AND p.next_at IS NOT NULL
        ORDER BY p.next_at LIMIT ${limit - claimed.length} ${claiming}`,
    );
    // A claim of another process passes over locked rows, so the order does not matter.
    yield update(leased, found, ({ message }) => ({ message, next_at: until }));
    for (const { status, error, times, ...poll } of found)
      claimed.push({ ...poll, until, state: stateOfRow({ status, error, times }) as MessageState });
  }
  return claimed;
}

/** `after`: ms before the first poll of a message. */
function* dueRanks(
  account: string,
  dueBy: number,
  after: number,
): Work<readonly { readonly rank: number; readonly by: number }[]> {
  const ranks = Array.from({ length: lastRank + 1 }, (_, rank) => ({
    rank,
    by: rank === 0 ? dueBy - after : dueBy,
  }));
  const firsts = yield* ask(find(firstOfRank, ranks, ({ rank }) => [account, rank]));
  return ranks.filter(({ by }, place) => {
    const at = firsts[place]?.next_at ?? null;
    return at !== null && at <= by;
  });
}

/** Ignores claims that have expired. */
export function* settlePolls(settled: readonly SettledPoll[]): Work<void> {
  const byMessage = settled.toSorted((a, b) => a.message - b.message);
  const unknown = yield* lockSubjects(
    byMessage.flatMap(({ end, message }) => (end === "missing" ? [message] : [])),
  );
  const stored = yield* ask(find(ownPoll, byMessage, ({ message }) => [message]));
  const own = byMessage.filter(({ until }, place) => stored[place]?.next_at === until);
  const polled = new Map(
    stored.flatMap((row) => (row === undefined ? [] : [[row.message, row.polls]])),
  );
  const notFound = own.flatMap((one) =>
    one.end === "missing" && unknown.has(one.message) ? [one] : [],
  );
  yield* together([
    update(
      again,
      own.flatMap((one) =>
        one.end === "again" ? [{ ...one, next_at: one.nextAt, answered_at: one.polledAt }] : [],
      ),
    ),
    remove(
      over,
      own.filter(({ end }) => end === "over"),
    ),
    update(ended, notFound, ({ message, at }) => ({
      message,
      next_at: null,
      polls: (polled.get(message) ?? 0) + 1,
      answered_at: at,
    })),
    update(missing, notFound, ({ message }) => ({ seq: message, missing: 1 })),
  ]);
}

/** Missing messages turned out to exist. Their subjects are locked. */
export function* pollAgain(messages: readonly Pick<SubjectRow, "seq">[]): Work<void> {
  if (messages.length === 0) return;
  const sorted = messages.toSorted((a, b) => a.seq - b.seq);
  const stored = yield* ask(find(ownPoll, sorted, ({ seq }) => [seq]));
  yield* together([
    update(
      again,
      stored.flatMap((row) =>
        row?.next_at === null ? [{ ...row, ...unpolled, next_at: row.since }] : [],
      ),
    ),
    update(missing, sorted, ({ seq }) => ({ seq, missing: null })),
  ]);
}

const unpolled = { rank: 0, polls: 0, failures: 0, misses: 0, answered_at: null };

/** It is due once its webhook should have come. */
export function pollOf({
  seq,
  account,
  registered_sent_at,
  registered_at,
  updated_at,
}: SubjectRow): PollRow {
  const since = registered_sent_at ?? registered_at ?? updated_at;
  return { ...unpolled, message: seq, account, since, next_at: since };
}

export function* countPolls({
  account,
  dueBy,
  after,
  from,
  resting,
  rare,
}: PollQuery): Work<PollCounts> {
  let dueNow = 0;
  for (const { rank, by } of yield* dueRanks(account, dueBy, after)) {
    if (dueNow >= mostCounted) break;
    dueNow += yield* countOf(
      count`FROM (SELECT p.message, p.since FROM polls p
          WHERE p.account = ${account} AND p.rank = ${rank} AND p.next_at <= ${by} AND p.next_at IS NOT NULL LIMIT ${mostCounted}) p
        JOIN subjects s ON s.seq = p.message
        WHERE ${allOf(sql`p.since >= ${from}`, isNone(resting), sql`(p.since <= ${rare.sentBy} OR ${allOf(isNone(rare.statuses))})`)}`,
    );
  }
  const unpollable = yield* countOf(
    count`FROM (SELECT s.status FROM subjects s
        WHERE s.account = ${account} AND ${raw(whereUnreadable)} AND s.registered_at >= ${from} LIMIT ${mostCounted}) s
      WHERE ${allOf(isNone(resting))}`,
  );
  const unknown = yield* countOf(
    count`FROM polls p WHERE p.account = ${account} AND p.next_at IS NULL AND p.answered_at >= ${from}`,
  );
  return { due: dueNow, unpollable, missing: unknown };
}

const isNone = (statuses: readonly string[]): Sql | undefined =>
  statuses.length === 0 ? undefined : sql`NOT (coalesce(s.status, '') IN ${statuses})`;

function* countOf(query: Sql<{ n: number }>): Work<number> {
  return (yield* first(query))?.n ?? 0;
}
