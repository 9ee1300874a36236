import { createQualitySums, type QualityQuery, type QualityView, sampleOf } from "../../model/history.ts";
import type { KeptVerdict } from "../../model/plan.ts";
import { events, subjects } from "../schema/tables.ts";
import { ask, find, rows, type Work } from "../sql/ops.ts";
import { as, type Sql, select, sql } from "../sql/sql.ts";
import { knownPlan } from "../work/plan-numbers.ts";
import { readWholeQuality } from "./history.ts";
import { type SeqRange, seqRange } from "./seq-range.ts";

/** Events that one statement reads: some ten milliseconds. */
const eventsAtOnce = 5_000;
/** The events of so many messages are read by their index; those of more in the order of the events. */
const fewMessages = 2_000;
const messagesAtOnce = 500;

const e = as(events, "e");
const s = as(subjects, "s");
const moved = select({
  plan: e.plan,
  status: e.status,
  previousStatus: e.previous_status,
  errorCode: e.error_code,
  times: s.times,
  sentAt: s.registered_sent_at,
});

/** Without route and reference from the history, else from the events of the messages. */
export function* readQuality(query: QualityQuery): Work<QualityView> {
  const { from, to, route, reference } = query;
  if (route === undefined && reference === undefined) return yield* readWholeQuality(from, to);
  const sums = createQualitySums(from);
  const few = reference === undefined ? null : yield* fewOfReference(reference);
  const { share, slices } = few === null ? yield* slicesOfRange(query) : { share: 1, slices: slicesOfMessages(few) };
  const delivers = createDelivers(route);
  for (const slice of slices) {
    const found = yield* rows(
      moved`FROM events e JOIN subjects s ON s.seq = e.subject WHERE ${slice} AND e.moved = 1 AND s.type = 0
        AND e.received_at >= ${from} AND e.received_at < ${to} ${reference === undefined ? undefined : sql`AND ${beginsWith(reference)}`}`,
    );
    const isRouted = yield* delivers(found.flatMap(({ plan }) => plan ?? []));
    for (const { plan, times, ...row } of found) {
      if (isRouted(plan)) sums.move({ ...row, status: row.status ?? "", times: JSON.parse(times) });
    }
  }
  return sums.result(share);
}

/** In the order of bytes, all that begin with a text are in one range. */
const beginsWith = (reference: string): Sql => sql`s.reference >= ${reference} AND s.reference < ${`${reference}\u{10FFFF}`}`;

/** The seqs of the messages whose reference begins so; null: they are more than a few. */
function* fewOfReference(reference: string): Work<readonly number[] | null> {
  const found = yield* rows(
    select({
      seq: s.seq,
    })`FROM subjects s WHERE ${beginsWith(reference)} AND s.reference IS NOT NULL AND s.type = 0 LIMIT ${fewMessages + 1}`,
  );
  return found.length > fewMessages ? null : found.map(({ seq }) => seq);
}

function slicesOfMessages(messages: readonly number[]): Sql[] {
  return chunksOf({ after: 0, last: messages.length }, messagesAtOnce).map(
    ({ after, last }) => sql`e.subject IN ${messages.slice(after, last)} AND e.subject IS NOT NULL`,
  );
}

/** The events of the range in the order of acceptance, or of a sample of it. */
function* slicesOfRange({ from, to, most }: QualityQuery): Work<{ readonly share: number; readonly slices: readonly Sql[] }> {
  const { share, stretches } = sampleOf(yield* seqRange(from, to), most);
  const chunks = stretches.flatMap((stretch) => chunksOf(stretch, eventsAtOnce));
  return { share, slices: chunks.map(({ after, last }) => sql`e.seq > ${after} AND e.seq <= ${last}`) };
}

const chunksOf = ({ after, last }: SeqRange, size: number): SeqRange[] =>
  Array.from({ length: Math.ceil((last - after) / size) }, (_, index) => ({
    after: after + index * size,
    last: Math.min(last, after + (index + 1) * size),
  }));

/** Which plans deliver to a route. Many events share a plan. */
function createDelivers(route: string | undefined) {
  const known = new Map<number, boolean>();
  return function* (plans: readonly number[]): Work<(plan: number | null) => boolean> {
    if (route === undefined) return () => true;
    const others = [...new Set(plans)].filter((plan) => !known.has(plan));
    const stored = yield* ask(
      find(
        knownPlan,
        others.map((plan) => [plan]),
      ),
    );
    for (const [place, plan] of others.entries()) {
      const verdicts = JSON.parse(stored[place]?.verdicts ?? "[]") as readonly KeptVerdict[];
      known.set(
        plan,
        verdicts.some(([name, verdict]) => name === route && verdict === "deliver"),
      );
    }
    return (plan) => plan !== null && known.get(plan) === true;
  };
}
