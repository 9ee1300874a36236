import type { ReceivedEvent } from "../../model/event.ts";
import { type CandidateRun, type HydrationBrief, type HydrationStart, hydrationStates } from "../../model/hydration.ts";
import { hydrations, type RowOf, subjects, whereOpenRun } from "../schema/tables.ts";
import { first, insert, rows, type Work } from "../sql/ops.ts";
import { as, indexedBy, raw, type Sql, select, sql, typed } from "../sql/sql.ts";

type HydrationRow = RowOf<typeof hydrations>;

interface HydrationOutcome extends Omit<HydrationBrief, "state"> {
  readonly last: number;
  /** Unix ms. */
  readonly settledAt: number;
}

export interface Beginning {
  readonly seq: number;
  readonly event: ReceivedEvent;
  readonly start: HydrationStart;
}

interface Candidates {
  readonly candidates: readonly CandidateRun[] | null;
  readonly unknown: number | null;
}

/** Most open runs that are listed, and most that are counted. */
const mostCandidates = 20;
const mostOpenRuns = 10_000;

const s = as(subjects, "s");
const run = select({ runId: s.name, reference: s.reference });
const count = select({ n: typed<number>(sql`count(*)`) });

/** Candidates are runs that are open after the events of the batch. */
export function* beginHydrations(begun: readonly Beginning[]): Work<void> {
  const openRuns = new Map<string, Candidates>();
  const added: HydrationRow[] = [];
  for (const { seq, event, start } of begun) {
    const { account, envelope, receivedAt } = event;
    const row = { event: seq, account, received_at: receivedAt, state: hydrationStates.indexOf(start.state) };
    if (start.state === "waiting") {
      added.push({ ...row, more: null });
      continue;
    }
    const isOfRun = envelope.event.startsWith("automation.");
    const { candidates, unknown } = isOfRun ? yield* candidatesOf(account, openRuns) : { candidates: null, unknown: null };
    const outcome = { reason: start.reason, polled: 0, found: 0, last: seq, unknown, candidates, settledAt: receivedAt };
    added.push({ ...row, more: packOutcome(outcome) });
  }
  yield insert(hydrations, added);
}

function* candidatesOf(account: string, known: Map<string, Candidates>): Work<Candidates> {
  const before = known.get(account);
  if (before !== undefined) return before;
  const open = sql`FROM subjects s ${indexedBy("subjects_open_runs")} WHERE s.account = ${account} AND ${raw(whereOpenRun)}`;
  const latest = yield* rows(run`${open} ORDER BY s.seq DESC LIMIT ${mostCandidates}`);
  const all = yield* first(count`FROM (SELECT 1 AS one ${open} LIMIT ${mostOpenRuns}) o`);
  const found = { candidates: latest, unknown: all?.n ?? 0 };
  known.set(account, found);
  return found;
}

export const packOutcome = (outcome: HydrationOutcome): string => JSON.stringify(outcome);

/** Null while it waits. */
export function outcomeOf({ more }: Pick<HydrationRow, "more">): HydrationOutcome | null {
  return more === null ? null : (JSON.parse(more) as HydrationOutcome);
}

export function briefOf(row: Pick<HydrationRow, "state" | "more">): HydrationBrief {
  const { reason, polled, found, unknown, candidates } = outcomeOf(row) ?? nothingYet;
  return { state: hydrationStates[row.state] ?? "given-up", reason, polled, found, unknown, candidates };
}

const nothingYet = { reason: null, polled: 0, found: 0, unknown: null, candidates: null };

/** `after` is exclusive. */
interface PolledRange {
  readonly account: string;
  readonly after: number;
  readonly last: number;
}

export const polledEvents = ({ account, after, last }: PolledRange): Sql =>
  sql`FROM events e ${indexedBy("events_polled")}
    WHERE e.account = ${account} AND e.origin <> 0 AND e.seq > ${after} AND e.seq <= ${last}`;

export const polledCount = (range: PolledRange) => count`${polledEvents(range)}`;
