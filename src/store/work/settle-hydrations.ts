import { type Covering, type GiveUpReason, type HydrationEnd, hydrationStates } from "../../model/hydration.ts";
import { isReplaced } from "../../track/parking.ts";
import { hydrations, subjects, whereHydrating } from "../schema/tables.ts";
import type { SettledHydrations } from "../service-port.ts";
import { ask, change, find, first, look, query, rows, together, update, type Work } from "../sql/ops.ts";
import { as, raw, select, sql, typed } from "../sql/sql.ts";
import { conclude, type ParkingParts } from "./conclude.ts";
import { ownPass } from "./hydration-passes.ts";
import { packOutcome, polledCount, polledEvents } from "./hydrations.ts";
import { keyOf } from "./subject-rows.ts";

interface End {
  readonly reason: GiveUpReason | null;
  readonly unknown: number;
  /** The message by whose id the events were found; null: by none. */
  readonly subject: number | null;
  readonly polled: number;
}

const none: SettledHydrations = { events: 0, due: [] };

const h = as(hydrations, "h");
const event = select({ event: h.event });
const byAccount = raw("INDEXED BY hydrations_waiting", "");
const coveredBy = ({ account, through }: Covering) =>
  sql`FROM hydrations h ${byAccount} WHERE h.account = ${account} AND ${raw(`h.${whereHydrating}`)} AND h.event <= ${through}`;
const greatest = select({ seq: typed<number | null>(sql`max(e.seq)`) });
const message = look(subjects, ["key", "account"], ["seq"]);
const settles = change(hydrations, ["state", "target", "subject", "more"], { isLocked: true });
const withoutTarget = change(hydrations, ["target"], { isLocked: true });

/** The distinct ids of covered events. */
export function* targets(pass: Covering, limit: number): Work<readonly string[]> {
  const found = yield* rows(
    sql<{ target: string }>`SELECT DISTINCT ${h.target} ${coveredBy(pass)} AND h.target IS NOT NULL LIMIT ${limit}`,
  );
  return found.map((row) => row.target);
}

/** Settles the events with such an id. `wamid`: of its message; null: it has none, and the events are left to the pass. */
export function* settleTarget(
  pass: Covering,
  target: string,
  wamid: string | null,
  now: number,
  parts: ParkingParts,
): Work<SettledHydrations> {
  if ((yield* ownPass(pass)) === null) return none;
  const found = (yield* rows(event`${coveredBy(pass)} AND h.target = ${target} ORDER BY h.event`)).map((row) => row.event);
  if (wamid === null) {
    yield update(
      withoutTarget,
      found.map((event) => ({ event, target: null })),
    );
    return none;
  }
  const [row] = yield* ask(find(message, [[keyOf(wamid), pass.account]]));
  return yield* settleSome(pass, found, { reason: null, unknown: 0, subject: row?.seq ?? null, polled: 1 }, now, parts);
}

/** Ends covered events, at most `limit` of them. */
export function* settleCovered(
  pass: Covering,
  { reason, unknown, receivedBy }: HydrationEnd,
  now: number,
  limit: number,
  parts: ParkingParts,
): Work<SettledHydrations> {
  const open = yield* ownPass(pass);
  if (open === null) return none;
  const found = yield* rows(event`${coveredBy(pass)} AND h.received_at <= ${receivedBy} ORDER BY h.event LIMIT ${limit}`);
  return yield* settleSome(
    pass,
    found.map((row) => row.event),
    { reason, unknown, subject: null, polled: open.polled },
    now,
    parts,
  );
}

/** Settles events in the order of `events`, and releases them unless polled statuses replace them. */
function* settleSome(
  { account }: Covering,
  events: readonly number[],
  { reason, unknown, subject, polled }: End,
  now: number,
  parts: ParkingParts,
): Work<SettledHydrations> {
  const [after] = events;
  if (after === undefined) return none;
  const { last, found } = yield* findPolled(account, subject, events, after);
  yield update(
    settles,
    events.map((event, place) => ({
      event,
      state: hydrationStates.indexOf(reason === null ? "done" : "given-up"),
      target: null,
      subject,
      more: packOutcome({ reason, polled, found: found[place] ?? 0, last, unknown, candidates: null, settledAt: now }),
    })),
  );
  const { freed } = yield* conclude(
    events.map((seq, place) => ({ seq, ending: isReplaced({ reason, unknown, found: found[place] ?? 0 }) ? "replaced" : "hydrated" })),
    now,
    parts,
  );
  return { events: events.length, due: freed.map(({ due }) => due) };
}

/** How many statuses were polled since each of the events, and the seq of the last one. Each is counted once. */
function* findPolled(account: string, subject: number | null, events: readonly number[], after: number) {
  const all = { account, subject, after, last: Number.MAX_SAFE_INTEGER };
  const last = (yield* first(greatest`${polledEvents(all)}`))?.seq ?? after;
  const between = yield* together(
    events.map((event, place) => query(polledCount({ account, subject, after: event, last: events[place + 1] ?? last }))),
  );
  const found: number[] = [];
  let sum = 0;
  for (const [row] of between.toReversed()) {
    sum += row?.n ?? 0;
    found.unshift(sum);
  }
  return { last, found };
}
