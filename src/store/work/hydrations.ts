import type { ReceivedEvent } from "../../model/event.ts";
import {
  type HydrationBrief,
  type HydrationStart,
  hydrationStates,
} from "../../model/hydration.ts";
import { hydrations, type RowOf } from "../schema/tables.ts";
import { insert, type Work } from "../sql/ops.ts";
import { indexedBy, type Sql, select, sql, typed } from "../sql/sql.ts";

type HydrationRow = RowOf<typeof hydrations>;

interface HydrationOutcome extends Omit<HydrationBrief, "state"> {
  readonly last: number;
  readonly settledAt: number;
}

export interface Beginning {
  readonly seq: number;
  readonly event: ReceivedEvent;
  readonly start: HydrationStart;
}

const count = select({ n: typed<number>(sql`count(*)`) });

export function* beginHydrations(begun: readonly Beginning[]): Work<void> {
  const added = begun.map(({ seq, event: { account, receivedAt }, start }): HydrationRow => {
    const row = {
      event: seq,
      account,
      received_at: receivedAt,
      state: hydrationStates.indexOf(start.state),
    };
    if (start.state === "waiting") return { ...row, more: null };
    return {
      ...row,
      more: packOutcome({ ...nothingYet, reason: start.reason, last: seq, settledAt: receivedAt }),
    };
  });
  yield insert(hydrations, added);
}

export const packOutcome = (outcome: HydrationOutcome): string => JSON.stringify(outcome);

/** Null while it waits. */
export function outcomeOf({ more }: Pick<HydrationRow, "more">): HydrationOutcome | null {
  return more === null ? null : (JSON.parse(more) as HydrationOutcome);
}

export function briefOf(row: Pick<HydrationRow, "state" | "more">): HydrationBrief {
  const { reason, polled, found, unknown } = outcomeOf(row) ?? nothingYet;
  return { state: hydrationStates[row.state] ?? "given-up", reason, polled, found, unknown };
}

const nothingYet = { reason: null, polled: 0, found: 0, unknown: null };

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
