import type { DeliveryState } from "../../model/delivery.ts";
import { deliveryId } from "../../model/ids.ts";
import { unpackEventId } from "../schema/codes.ts";
import { deliveries, events, queue, queueState, settledState } from "../schema/tables.ts";
import { as, hexOf, raw, type Sql, select, sql } from "../sql/sql.ts";
import type { DeliveryView, OfDelivery, OfEvent } from "../views.ts";
import { type Conditions, conditionsOf } from "./conditions.ts";

const q = as(queue, "q");
const d = as(deliveries, "d");
const e = as(events, "e");
const { waiting, held, exchange } = queueState;
/** The states of open deliveries. A proxied exchange waits for its answer. */
const openCodes = { waiting: `${waiting}, ${exchange}`, held: `${held}`, any: `${waiting}, ${held}, ${exchange}` };

export const isOpen = (state: keyof typeof openCodes): Sql => sql`q.state IN (${raw(openCodes[state])})`;
export const isDead = raw(`d.state = ${settledState.dead}`);
export const open = select({
  account: q.account,
  id: hexOf(e.id),
  event: q.event,
  route: q.route,
  state: q.state,
  attempts: q.attempts,
  replays: q.replays,
  nextAt: q.next_at,
  cause: q.cause,
});
export const settled = select({
  account: d.account,
  id: hexOf(e.id),
  event: d.event,
  route: d.route,
  state: d.state,
  attempts: d.attempts,
  replays: d.replays,
  settledAt: d.settled_at,
  reason: d.reason,
  cause: d.cause,
});

/** The deliveries come first, in the order of a list. */
export const withEvent = (event: Sql): Sql => sql`${raw("CROSS JOIN", "JOIN")} events e ON e.seq = ${event}`;
export const byDue = raw("INDEXED BY queue_due", "");
export const byDead = raw("INDEXED BY deliveries_dead", "");
/** Events with their rows of the queue, each found by its lane. `OFFSET 0` keeps PostgreSQL from joining the whole queue. */
export const openOfEvent = raw(
  "events e CROSS JOIN queue q ON q.lane IN (e.subject, -e.seq) AND q.event = e.seq",
  `events e CROSS JOIN LATERAL
    (SELECT * FROM queue w WHERE w.lane = ANY (ARRAY[e.subject, -e.seq]) AND w.event = e.seq OFFSET 0) q`,
);

/** Keeps SQLite from beginning with the events: the deliveries are in the order of the list. */
const plus = raw("+", "");
const eventConditions: Conditions<OfEvent> = {
  errorCode: (code) => sql`${plus}e.error_code = ${code}`,
  from: (time) => sql`${plus}e.received_at >= ${time}`,
  to: (time) => sql`${plus}e.received_at < ${time}`,
};
export const ofEvent = (filter: OfEvent): Sql | undefined => conditionsOf(eventConditions, filter);

const deliveryConditions = (rows: typeof q | typeof d): Conditions<OfDelivery> => ({
  accounts: (accounts) => sql`${rows.account} IN ${accounts}`,
  route: (route) => sql`${rows.route} = ${route}`,
  cause: (cause) => (cause === null ? sql`${rows.cause} IS NULL` : sql`${rows.cause} = ${cause}`),
});
export const ofDelivery = (rows: typeof q | typeof d, filter: OfDelivery): Sql | undefined =>
  conditionsOf(deliveryConditions(rows), filter);

export const codeOfSettled = (state: DeliveryState): number => (state === "dead" ? settledState.dead : settledState.delivered);
export const wordOfOpen = (code: number): DeliveryState => (code === held ? "held" : "waiting");
export const wordOfSettled = (code: number): DeliveryState => (code === settledState.dead ? "dead" : "delivered");

function named({ account, id, event, route }: { account: string; id: string; event: number; route: string }) {
  const eventId = unpackEventId(id);
  return { id: deliveryId(account, eventId, route), event, eventId, route };
}

export function openView(row: NonNullable<ReturnType<typeof open>["row"]>): DeliveryView {
  const { state, attempts, replays, nextAt, cause } = row;
  return {
    ...named(row),
    state: wordOfOpen(state),
    attempts,
    replays,
    nextAt: state === waiting ? nextAt : null,
    settledAt: null,
    reason: null,
    cause,
  };
}

export function settledView(row: NonNullable<ReturnType<typeof settled>["row"]>): DeliveryView {
  const { state, attempts, replays, settledAt, reason, cause } = row;
  return { ...named(row), state: wordOfSettled(state), attempts, replays, nextAt: null, settledAt, reason, cause };
}
