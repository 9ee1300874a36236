import { type HydrationRow, targetMember, writeHydrationRow } from "../redis/hydration-row.ts";
import type { SubjectName } from "../redis/keys.ts";
import { giveUpReason, hydrationState } from "../sqlite/names.ts";
import type { Batch } from "./batch.ts";
import type { CarrierParts } from "./carrier.ts";

interface Row {
  event: number;
  state: number;
  reason: number | null;
  target: string | null;
  subject: number | null;
  asked: number;
  found: number;
  last: number | null;
  unknown: number | null;
  candidates: string | null;
  settled_at: number | null;
}

interface Parts extends CarrierParts {
  readonly subjectOf: (subject: number | null) => SubjectName | null;
}

/** What became of a truncated event; one that waits does so for the sweep that covers it, or for the next. */
export function carryHydrations({ source: { db, names }, version, subjectOf }: Parts) {
  const select = db.prepare<[number], Row>("SELECT * FROM hydrations WHERE event = ?");
  const sweeps = db.prepare<[], { account: number; through: number }>("SELECT account, through FROM sweeps WHERE ended_at IS NULL");
  const covered = new Map(sweeps.all().map(({ account, through }) => [names.nameOf(account), through]));

  return (seq: number, account: string, receivedAt: number, batch: Batch): void => {
    const row = select.get(seq);
    if (row === undefined) return;
    const hydration = hydrationOf(row, subjectOf);
    batch.set(`h:${seq}`, version() + writeHydrationRow(hydration));
    if (hydration.state !== "waiting") return;
    const isCovered = seq <= (covered.get(account) ?? 0);
    batch.member("hydrating", account);
    batch.list(`${isCovered ? "hc" : "hw"}:${account}`, receivedAt, String(seq));
    if (row.target !== null) batch.list(`${isCovered ? "ct" : "ht"}:${account}`, 0, targetMember(row.target, seq));
  };
}

function hydrationOf(row: Row, subjectOf: Parts["subjectOf"]): HydrationRow {
  return {
    state: hydrationState(row.state),
    reason: giveUpReason(row.reason),
    target: row.target,
    asked: row.asked,
    found: row.found,
    // The embedded engine marks with the event itself what was over at once, and never asked for.
    last: row.last === row.event ? null : row.last,
    subject: subjectOf(row.subject),
    unknown: row.unknown,
    candidates: row.candidates === null ? null : JSON.parse(row.candidates),
    settledAt: row.settled_at,
  };
}
