import { minuteMs } from "../../model/history.ts";
import {
  type CoveredEvents,
  type Covering,
  type HydrationEnd,
  type HydrationPass,
  hydrationStates,
  type ReadMessage,
  type TrackedMessage,
  type TrackedQuery,
} from "../../model/hydration.ts";
import { isReplaced } from "../../track/planning.ts";
import type { DueDelivery } from "../port.ts";
import { unpackEventId } from "../schema/codes.ts";
import {
  events,
  hydrations,
  polls,
  subjects,
  whereHydrating,
  whereReadable,
  whereUnreadable,
} from "../schema/tables.ts";
import { change, first, query, rows, together, update, type Work } from "../sql/ops.ts";
import { as, hexOf, indexedBy, raw, select, sql, typed } from "../sql/sql.ts";
import { conclude, type ParkingParts } from "./conclude.ts";
import { packOutcome, polledCount, polledEvents } from "./hydrations.ts";
import { addTo, create, list, put, timeName, value } from "./state.ts";
import { lockSubjects } from "./subject-rows.ts";

/*
 * A pass reads the candidate messages of an account for all truncated events that wait when it
 * begins. The open one is a row of `state`, which each step locks first, so that another process
 * can continue it.
 */

/** Reconciliation stores when it got an answer. The call began at most this long before. */
const longestCallMs = 15_000;

function lastRead(readAt: number | null, answeredAt: number | null): number | null {
  const polledAt = answeredAt === null ? null : answeredAt - longestCallMs;
  return readAt === null ? polledAt : Math.max(readAt, polledAt ?? readAt);
}

/** Longer than any period over which they are counted. */
const callsKeptMs = 7 * 86_400_000;

interface OpenPass extends Pick<Covering, "through"> {
  readonly startedAt: number;
  readonly polled: number;
}

const h = as(hydrations, "h");
const e = as(events, "e");
const s = as(subjects, "s");
const p = as(polls, "p");
const isWaiting = raw(`h.${whereHydrating}`);
const byAccount = indexedBy("hydrations_waiting");
const waitingOf = ({ account, through }: Covering) =>
  sql`FROM hydrations h ${byAccount} WHERE h.account = ${account} AND ${isWaiting} AND h.event <= ${through}`;
const passKey = (account: string): string => `hydrating/${account}`;
const callsOf = (account: string): string => `hydrated/${account}/`;

const accountsWaiting = (after: string) =>
  sql`(SELECT h.account FROM hydrations h ${byAccount} WHERE ${isWaiting} ${raw(after)} ORDER BY h.account LIMIT 1)`;
const waiting = sql<{
  account: string;
}>`WITH RECURSIVE a(account) AS (SELECT ${accountsWaiting("")} UNION ALL
    SELECT ${accountsWaiting("AND h.account > a.account")} FROM a WHERE a.account IS NOT NULL)
  SELECT account FROM a WHERE account IS NOT NULL`;
const coveredRows = select({
  events: typed<number>(sql`count(*)`),
  oldest: typed<number | null>(sql`min(${h.received_at})`),
  newest: typed<number | null>(sql`max(${h.received_at})`),
});
const cause = select({ because: hexOf(e.id), source: e.source });
const eventOf = select({ event: h.event });
const reads = change(subjects, ["polled_at"], { isLocked: true });
const tracked = select({
  message: s.seq,
  messageId: s.service_id,
  status: s.status,
  registeredAt: typed<number>(s.registered_at),
  sentAt: s.registered_sent_at,
  changedAt: s.updated_at,
  readAt: s.polled_at,
  answeredAt: p.answered_at,
});

export function* waitingAccounts(): Work<readonly string[]> {
  return (yield* rows(waiting)).map(({ account }) => account);
}

export function* waitingSince(account: string): Work<number | null> {
  return (yield* coveredBy({ account, through: Number.MAX_SAFE_INTEGER }))?.oldest ?? null;
}

function* coveredBy(range: Covering): Work<CoveredEvents | null> {
  const row = yield* first(coveredRows`${waitingOf(range)}`);
  if (row === null || row.oldest === null || row.newest === null) return null;
  return { events: row.events, oldest: row.oldest, newest: row.newest };
}

function* ownPass({ account, through }: Covering): Work<OpenPass | null> {
  const open = yield* value<OpenPass>(passKey(account), "update");
  return open?.through === through ? open : null;
}

/** Continues the account's pass, or begins one over all waiting events. Null: none waits. */
export function* beginPass(account: string, now: number): Work<HydrationPass | null> {
  const open = yield* value<OpenPass>(passKey(account), "update");
  let pass = open;
  let covered = open === null ? null : yield* coveredBy({ account, through: open.through });
  if (covered === null) {
    // A crash left it open after all its events settled.
    if (open !== null) yield* put(passKey(account), null);
    const newest = yield* first(
      eventOf`FROM hydrations h ${byAccount} WHERE h.account = ${account} AND ${isWaiting} ORDER BY h.event DESC LIMIT 1`,
    );
    if (newest === null) return null;
    pass = { through: newest.event, startedAt: now, polled: 0 };
    yield* create(passKey(account), pass);
    covered = yield* coveredBy({ account, through: newest.event });
  }
  if (pass === null || covered === null) return null;
  const of = yield* first(
    cause`FROM (SELECT h.event ${waitingOf({ account, through: pass.through })} ORDER BY h.event LIMIT 1) h
      JOIN events e ON e.seq = h.event`,
  );
  return of === null
    ? null
    : { ...pass, account, covered, source: of.source, because: unpackEventId(of.because) };
}

/** Null: none, or the pass has ended. */
export function* covered(pass: Covering): Work<CoveredEvents | null> {
  const open = yield* value<OpenPass>(passKey(pass.account));
  return open?.through === pass.through ? yield* coveredBy(pass) : null;
}

export function* callsFor(event: number, account: string): Work<number> {
  const open = yield* value<OpenPass>(passKey(account));
  return open !== null && event <= open.through ? open.polled : 0;
}

export function* noteReads(
  pass: Covering,
  polled: number,
  read: readonly ReadMessage[],
  now: number,
): Work<void> {
  const { account } = pass;
  const open = yield* ownPass(pass);
  if (open !== null) yield* put(passKey(account), { ...open, polled: open.polled + polled });
  const messages = yield* lockSubjects(read.map(({ message }) => message));
  yield update(
    reads,
    read
      .map(({ message, at }) => ({ seq: message, polled_at: at }))
      .filter(({ seq }) => messages.has(seq)),
  );
  yield* addTo(
    callsOf(account) + timeName(Math.floor(now / minuteMs) * minuteMs),
    { polled },
    now + callsKeptMs,
  );
}

export function* endPass(pass: Covering): Work<void> {
  if ((yield* ownPass(pass)) !== null) yield* put(passKey(pass.account), null);
}

/** `since`: when a minute begins. */
export function* callsSince(account: string, since: number): Work<number> {
  const calls = yield* list<{ readonly polled: number }>(callsOf(account), timeName(since));
  return calls.reduce((sum, { value }) => sum + value.polled, 0);
}

export function* trackedMessages(
  account: string,
  { withId, before, from, limit }: TrackedQuery,
): Work<readonly TrackedMessage[]> {
  const index = withId ? "readable" : "unreadable";
  const found = yield* rows(
    tracked`FROM subjects s ${indexedBy(`subjects_${index}`)} LEFT JOIN polls p ON p.message = s.seq
      WHERE s.account = ${account} AND ${raw(withId ? whereReadable : whereUnreadable)} AND s.missing IS NULL AND s.registered_at >= ${from}
        AND (s.registered_at, s.seq) < (${before.registeredAt}, ${before.message})
      ORDER BY s.registered_at DESC, s.seq DESC LIMIT ${limit}`,
  );
  return found.map(({ answeredAt, readAt, ...row }) => ({
    ...row,
    readAt: lastRead(readAt, answeredAt),
  }));
}

const greatest = select({ seq: typed<number | null>(sql`max(e.seq)`) });
const settles = change(hydrations, ["state", "more"], { isLocked: true });

export function* settleCovered(
  pass: Covering,
  { reason, unknown, receivedBy }: HydrationEnd,
  now: number,
  limit: number,
  parts: ParkingParts,
): Work<{ readonly events: number; readonly due: readonly DueDelivery[] }> {
  const open = yield* ownPass(pass);
  if (open === null) return { events: 0, due: [] };
  const { polled } = open;
  const waiting = yield* rows(
    eventOf`${waitingOf(pass)} AND h.received_at <= ${receivedBy} ORDER BY h.event LIMIT ${limit}`,
  );
  const events = waiting.map(({ event }) => event);
  const [after] = events;
  if (after === undefined) return { events: 0, due: [] };
  const { last, found } = yield* findPolled(pass.account, events, after);
  yield update(
    settles,
    events.map((event, place) => ({
      event,
      state: hydrationStates.indexOf(reason === null ? "done" : "given-up"),
      more: packOutcome({
        reason,
        polled,
        found: found[place] ?? 0,
        last,
        unknown,
        settledAt: now,
      }),
    })),
  );
  const { freed } = yield* conclude(
    events.map((seq, place) => ({
      seq,
      ending: isReplaced({ reason, unknown, found: found[place] ?? 0 }) ? "replaced" : "hydrated",
    })),
    now,
    parts,
  );
  return { events: events.length, due: freed.map(({ due }) => due) };
}

/** Polled statuses since each event, each counted once, and the seq of the last one. */
function* findPolled(account: string, events: readonly number[], after: number) {
  const all = { account, after, last: Number.MAX_SAFE_INTEGER };
  const last = (yield* first(greatest`${polledEvents(all)}`))?.seq ?? after;
  const between = yield* together(
    events.map((event, place) =>
      query(polledCount({ account, after: event, last: events[place + 1] ?? last })),
    ),
  );
  const found: number[] = [];
  let sum = 0;
  for (const [row] of between.toReversed()) {
    sum += row?.n ?? 0;
    found.unshift(sum);
  }
  return { last, found };
}
