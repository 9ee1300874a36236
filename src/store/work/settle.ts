import { type Attempt, outcomeOf, type SettledOutcome, type Settling } from "../../model/delivery.ts";
import { bucketOf, minuteMs } from "../../model/history.ts";
import type { RowOf } from "../schema/table.ts";
import { attempts, deliveries, queue, queueState, settledState } from "../schema/tables.ts";
import { change, find, insert, lock, look, removal, remove, set, together, update, type Work } from "../sql/ops.ts";
import type { Counts } from "./counts.ts";
import { type Held, lostLeases } from "./leases.ts";
import { noteOfRoute } from "./route-notes.ts";

export interface SettleParts {
  readonly counts: () => Counts;
  readonly held: Held;
}

export type { SettledOutcome, Settling } from "../../model/delivery.ts";

const own = look(queue, ["lane", "route", "event"], ["event"], { lock: "update" });
const nextInLane = look(queue, ["lane", "route"], ["event", "state"], { order: "event", lock: "update" });
/** A settlement of another attempt than the next one is late. */
const waits = change(queue, ["next_at", "cause", "spent"], { count: ["attempts"], only: ["attempts"] });
const ends = removal(queue, { only: ["attempts"] });
const released = change(queue, ["state", "next_at"], { isLocked: true });

const leaseOf = ({ route, lease = route }: Settling): string => lease;

/** Records attempts and their outcomes, each on its own: one that is late or lost harms no other. */
export function* settle(batch: readonly Settling[], { counts: begin, held }: SettleParts): Work<readonly SettledOutcome[]> {
  const lost = held === null ? none : yield* lostLeases([...new Set(batch.map(leaseOf))], held);
  const outcomes: SettledOutcome[] = batch.map(() => ({ result: "lost" }));
  // In one order, so that two workers do not wait for each other.
  const kept = batch
    .map((settling, place) => ({ settling, place, key: keyOf(settling) }))
    .filter(({ settling }) => !lost.has(leaseOf(settling)));
  kept.sort((a, b) => compareKeys(a.key, b.key));
  const [waiting, ending] = [
    kept.filter(({ settling }) => settling.settled.to === "waiting"),
    kept.filter(({ settling }) => settling.settled.to !== "waiting"),
  ];
  // Each statement locks its own rows in order; two of them need their rows locked before.
  const both = waiting.length > 0 && ending.length > 0 ? kept : [];
  const [, hasWaited, hasEnded] = yield* together([
    lock(
      own,
      both.map(({ key: { lane, route, event } }) => [lane, route, event]),
    ),
    update(
      waits,
      waiting.map(({ settling, key }) => ({ ...key, ...waitingRow(settling) })),
    ),
    remove(
      ends,
      ending.map(({ key }) => key),
    ),
  ]);

  const done = [...waiting.filter((_, index) => hasWaited[index]), ...ending.filter((_, index) => hasEnded[index])];
  for (const { place } of kept) outcomes[place] = { result: "late" };
  for (const { place } of done) outcomes[place] = { result: "settled", released: null };
  const ended = ending.filter((_, index) => hasEnded[index]);
  // An unordered delivery is alone in its lane.
  const freed = ended.filter(({ key: { lane } }) => lane > 0);
  // After the removal: a delivery that was accepted behind it while it was locked is seen only now.
  const [, , next] = yield* together([
    insert(
      deliveries,
      ended.map(({ settling }) => deliveryRow(settling)),
    ),
    insert(
      attempts,
      waiting.filter((_, index) => hasWaited[index]).map(({ settling }) => attemptRow(settling)),
    ),
    find(
      nextInLane,
      freed.map(({ key: { lane, route } }) => [lane, route]),
    ),
  ]);
  const out = freed.flatMap(({ key: { lane, route }, settling: { at }, place }, index) => {
    const row = next[index];
    return row?.state === queueState.held ? [{ place, due: { lane, route, event: row.event, at } }] : [];
  });
  for (const { place, due } of out) outcomes[place] = { result: "settled", released: due };
  yield* together([
    set(
      released,
      out.map(({ due: { at, ...key } }) => ({ ...key, state: queueState.waiting, next_at: at })),
    ),
  ]);

  const counts = begin();
  for (const { settling } of done) {
    countSettled(counts, settling);
    const { stop, pause, opened, failing } = settling;
    if ([stop, pause, opened, failing].some((note) => note !== undefined)) yield* noteOfRoute(settling);
  }
  yield* counts.write();
  return outcomes;
}

const none: ReadonlySet<string> = new Set();

interface QueueKey {
  readonly lane: number;
  readonly route: string;
  readonly event: number;
  /** Before the attempt. */
  readonly attempts: number;
}

const keyOf = ({ delivery, route, event, attempt }: Settling): QueueKey => ({
  lane: delivery.lane,
  route,
  event,
  attempts: attempt.number - 1,
});

function compareKeys(a: QueueKey, b: QueueKey): number {
  return a.lane - b.lane || (a.route < b.route ? -1 : a.route > b.route ? 1 : 0) || a.event - b.event || a.attempts - b.attempts;
}

/** The attempt counts on; a pause that the destination asked for does not use up the limit. */
const spentAfter = ({ settled, delivery }: Settling): number =>
  delivery.spent + (settled.to === "waiting" && settled.spares === true ? 0 : 1);

/** The cause of the last failed attempt. */
const causeAfter = ({ settled, attempt, delivery }: Settling): string | null =>
  settled.to === "delivered" ? delivery.cause : outcomeOf(attempt.result);

function waitingRow(settling: Settling) {
  const { settled } = settling;
  return { next_at: settled.to === "waiting" ? settled.nextAt : 0, cause: causeAfter(settling), spent: spentAfter(settling) };
}

function attemptRow({ event, route, attempt }: Settling): RowOf<typeof attempts> {
  return { event, route, number: attempt.number, ...triedAs(attempt) };
}

/** The attempt that settles a delivery is stored with it. */
function deliveryRow(settling: Settling): RowOf<typeof deliveries> {
  const { event, route, attempt, settled, at, delivery } = settling;
  return {
    event,
    route,
    account: delivery.account,
    lane: delivery.lane,
    state: settled.to === "dead" ? settledState.dead : settledState.delivered,
    attempts: attempt.number,
    spent: spentAfter(settling),
    replays: delivery.replays,
    settled_at: at,
    reason: settled.to === "dead" ? settled.reason : null,
    cause: causeAfter(settling),
    ...triedAs(attempt),
  };
}

function triedAs({ at, tookMs, result, response }: Attempt) {
  return {
    at,
    took_ms: Math.round(tookMs),
    status: result.kind === "answered" ? result.status : null,
    error: result.kind === "failed" ? result.error : null,
    response,
  };
}

function countSettled(counts: Counts, { route, attempt, settled, at, receivedAt, delivery: { account } }: Settling): void {
  const minute = Math.floor(at / minuteMs);
  counts.add({ at: Math.floor(attempt.at / minuteMs), account, series: "attempts", of: route, label: outcomeOf(attempt.result) }, 1);
  if (settled.to === "dead") counts.add({ at: minute, account, series: "dead", of: route, label: "" }, 1);
  if (settled.to === "delivered" && receivedAt !== undefined)
    counts.add({ at: minute, account, series: "delivery", of: route, label: String(bucketOf(at - receivedAt)) }, 1);
}
