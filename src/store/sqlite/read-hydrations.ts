import type { CandidateRun, HydrationBrief } from "../../event/hydration.ts";
import type { EventId } from "../../event/ids.ts";
import type { HydrationView } from "../event-views.ts";
import { unpackEventId } from "./codes.ts";
import { giveUpReason, hydrationState } from "./hydration-codes.ts";
import type { Db } from "./open.ts";

interface Row {
  account: number;
  state: number;
  reason: number | null;
  subject: number | null;
  asked: number;
  found: number;
  last: number | null;
  unknown: number | null;
  candidates: string | null;
  settled_at: number | null;
}

/** Most news that are named with an event. */
const mostShown = 100;

/** What became of truncated events. */
export function createReadHydrations(db: Db) {
  const one = db.prepare<[number], Row>(
    "SELECT account, state, reason, subject, asked, found, last, unknown, candidates, settled_at FROM hydrations WHERE event = ?",
  );
  const sweepOf = db
    .prepare<[number, number], number>("SELECT asked FROM sweeps WHERE account = ? AND ended_at IS NULL AND through >= ?")
    .pluck();
  const matching = `FROM events e LEFT JOIN messages m ON e.subject % 2 = 0 AND m.seq = e.subject / 2
    WHERE e.origin <> 0 AND e.account = @account AND e.seq > @event AND e.seq <= @last AND (@subject IS NULL OR e.subject = @subject)`;
  interface Range {
    account: number;
    event: number;
    last: number;
    subject: number | null;
  }
  const found = db.prepare<[Range], { id: Buffer | string; seq: number; wamid: string | null; status: string | null }>(
    `SELECT e.id, e.seq, m.wamid, e.status ${matching} ORDER BY e.seq LIMIT ${mostShown}`,
  );
  const countFound = db.prepare<[Range], number>(`SELECT count(*) ${matching}`).pluck();

  function candidatesOf({ candidates }: Row): CandidateRun[] | null {
    if (candidates === null) return null;
    return (JSON.parse(candidates) as [string, string | null][]).map(([runId, reference]) => ({ runId, reference }));
  }

  return {
    /** Null when the event needed no hydration. */
    brief(event: number): HydrationBrief | null {
      const row = one.get(event);
      if (row === undefined) return null;
      const { asked, found: count, unknown } = row;
      return {
        state: hydrationState(row.state),
        reason: giveUpReason(row.reason),
        asked,
        found: count,
        unknown,
        candidates: candidatesOf(row),
      };
    },
    /** The same with the news themselves; what is known so far while it waits. */
    view(event: number): HydrationView | null {
      const row = one.get(event);
      if (row === undefined) return null;
      const range = { account: row.account, event, last: row.last ?? Number.MAX_SAFE_INTEGER, subject: row.subject };
      const isWaiting = row.settled_at === null;
      return {
        state: hydrationState(row.state),
        reason: giveUpReason(row.reason),
        asked: isWaiting ? (sweepOf.get(row.account, event) ?? 0) : row.asked,
        found: found.all(range).map(({ id, ...rest }) => ({ id: unpackEventId(id) as EventId, ...rest })),
        foundCount: isWaiting ? (countFound.get(range) ?? 0) : row.found,
        unknown: row.unknown,
        candidates: candidatesOf(row),
        settledAt: row.settled_at,
      };
    },
  };
}
