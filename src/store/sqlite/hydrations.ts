import type { ReceivedEvent } from "../../model/event.ts";
import type {
  CandidateRun,
  CoveredEvents,
  Covering,
  GiveUpReason,
  HydrationBrief,
  HydrationEnd,
  HydrationStart,
} from "../../model/hydration.ts";
import type { EventId } from "../../model/ids.ts";
import { dropReplaced, type HydrationResult, isParked, isReplaced, releaseTruncated } from "../../track/parking.ts";
import { planTruncated } from "../../track/planning.ts";
import type { DueDelivery } from "../rules.ts";
import { mostCandidates, mostFoundShown, mostOpenRuns, type SettledHydrations, targetOf } from "../service-port.ts";

import type { HydrationView } from "../views.ts";
import type { Db } from "./file.ts";
import { dispositionCode, giveUpCode, giveUpReason, hydrationCode, hydrationState, messageSubject, unpackEventId } from "./names.ts";
import type { PlanningParts } from "./parking.ts";
import type { EventRow, HydrationRow } from "./rows.ts";

type WaitingRow = Pick<EventRow, "seq" | "account" | "source" | "received_at" | "disposition" | "plan" | "body">;

/** Hydration of truncated events. Call all but the reads inside a transaction. */
export function createHydrations(db: Db, { names, plans, rules, messages, planDeliveries, history }: Omit<PlanningParts, "runs">) {
  const { waiting, done } = hydrationCode;
  const insert = db.prepare(`
    INSERT INTO hydrations (event, account, received_at, state, reason, target, asked, found, last, unknown, candidates, settled_at)
    VALUES (?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?, ?)`);
  const openRuns = db.prepare<[number], { run_id: string; reference: string | null }>(
    `SELECT run_id, reference FROM runs WHERE account = ? AND registered_at IS NOT NULL AND ended = 0
     ORDER BY seq DESC LIMIT ${mostCandidates}`,
  );
  const countOpenRuns = db
    .prepare<[number], number>(
      `SELECT count(*) FROM (SELECT 1 FROM runs WHERE account = ? AND registered_at IS NOT NULL AND ended = 0
         LIMIT ${mostOpenRuns})`,
    )
    .pluck();
  const runById = db.prepare<[number, string], { run_id: string; reference: string | null }>(
    "SELECT run_id, reference FROM runs WHERE account = ? AND run_id = ?",
  );
  const accounts = db.prepare<[], number>(`SELECT DISTINCT account FROM hydrations WHERE state = ${waiting}`).pluck();
  const since = db
    .prepare<[number], number | null>(`SELECT min(received_at) FROM hydrations WHERE account = ? AND state = ${waiting}`)
    .pluck();
  const covered = db.prepare<[number, number], { events: number; oldest: number | null; newest: number | null }>(
    `SELECT count(*) AS events, min(received_at) AS oldest, max(received_at) AS newest FROM hydrations
     WHERE account = ? AND state = ${waiting} AND event <= ?`,
  );
  const targets = db
    .prepare<[number, number, number], string>(
      `SELECT DISTINCT target FROM hydrations WHERE account = ? AND state = ${waiting} AND event <= ? AND target IS NOT NULL LIMIT ?`,
    )
    .pluck();
  const ofTarget = db
    .prepare<[number, number, string], number>(
      `SELECT event FROM hydrations WHERE account = ? AND state = ${waiting} AND event <= ? AND target = ?`,
    )
    .pluck();
  const forgetTarget = db.prepare<[number, number, string]>(
    `UPDATE hydrations SET target = NULL WHERE account = ? AND state = ${waiting} AND event <= ? AND target = ?`,
  );
  const some = db
    .prepare<[number, number, number, number], number>(
      `SELECT event FROM hydrations WHERE account = ? AND state = ${waiting} AND event <= ? AND received_at <= ? ORDER BY event LIMIT ?`,
    )
    .pluck();
  const lastEvent = db.prepare<[], number>("SELECT max(seq) FROM events").pluck();
  const learned = db
    .prepare<[{ account: number; after: number; last: number; subject: number | null }], number>(
      `SELECT count(*) FROM events WHERE origin <> 0 AND account = @account AND seq > @after AND seq <= @last
         AND (@subject IS NULL OR subject = @subject)`,
    )
    .pluck();
  const calls = db.prepare<[number], number>("SELECT asked FROM hydration_passes WHERE seq = ?").pluck();
  const eventRow = db.prepare<[number], WaitingRow>(
    "SELECT seq, account, source, received_at, disposition, plan, body FROM events WHERE seq = ?",
  );
  const settle = db.prepare(`
    UPDATE hydrations SET state = ?, reason = ?, target = NULL, subject = ?, asked = ?, found = ?, last = ?, unknown = ?, settled_at = ?
    WHERE event = ?`);
  const conclude = db.prepare<[number, number, number]>("UPDATE events SET disposition = ?, plan = ? WHERE seq = ?");

  /** Delivers the event to the routes that parked it, unless polled statuses replace it. */
  function release(
    { seq, account, source, received_at, disposition, plan, body }: WaitingRow,
    result: HydrationResult,
    now: number,
  ): readonly DueDelivery[] {
    const kept = plan === null ? [] : plans.verdictsOf(plan);
    if (!isParked(kept)) return [];
    const concluded = isReplaced(result)
      ? dropReplaced(kept)
      : releaseTruncated(kept, planTruncated(rules, { account: names.nameOf(account), source: names.nameOf(source), body }));
    conclude.run(dispositionCode[concluded.disposition], plans.idOf(concluded), seq);
    history.move(source, received_at, disposition, dispositionCode[concluded.disposition]);
    return planDeliveries(seq, null, { verdicts: concluded.released }, now, null);
  }

  function settleOne(
    event: number,
    end: { reason: GiveUpReason | null; unknown: number; subject: number | null; polled: number },
    now: number,
  ) {
    const row = eventRow.get(event);
    if (row === undefined) return [];
    const { reason, unknown, subject, polled } = end;
    const last = lastEvent.get() ?? event;
    const found = learned.get({ account: row.account, after: event, last, subject }) ?? 0;
    const state = reason === null ? done : hydrationCode["given-up"];
    settle.run(state, reason === null ? null : giveUpCode[reason], subject, polled, found, last, unknown, now, event);
    return release(row, { reason, found, unknown }, now);
  }

  function candidatesOf(account: number, target: string | null): { runs: [string, string | null][]; open: number } {
    const named = target === null ? undefined : runById.get(account, target);
    const runs = named === undefined ? openRuns.all(account) : [named];
    return {
      runs: runs.map(({ run_id, reference }) => [run_id, reference]),
      open: named === undefined ? (countOpenRuns.get(account) ?? 0) : 1,
    };
  }

  return {
    /** Call it in the transaction of the event `seq`. */
    begin(seq: number, account: number, { envelope, receivedAt }: ReceivedEvent, start: HydrationStart): void {
      const target = targetOf(envelope.data);
      if (start.state === "waiting") {
        insert.run(seq, account, receivedAt, waiting, null, target, null, null, null, null);
        return;
      }
      const { runs, open } = envelope.event.startsWith("automation.") ? candidatesOf(account, target) : { runs: null, open: null };
      const candidates = runs === null ? null : JSON.stringify(runs);
      insert.run(seq, account, receivedAt, hydrationCode["given-up"], giveUpCode[start.reason], null, seq, open, candidates, receivedAt);
    },
    waitingAccounts: (): string[] => accounts.all().map((account) => names.nameOf(account)),
    waitingSince(account: string): number | null {
      const id = names.find("account", account);
      return id === null ? null : (since.get(id) ?? null);
    },
    covered({ account, through }: Pick<Covering, "account" | "through">): CoveredEvents | null {
      const id = names.find("account", account);
      const { events, oldest, newest } = (id === null ? undefined : covered.get(id, through)) ?? { events: 0, oldest: null, newest: null };
      return oldest === null || newest === null ? null : { events, oldest, newest };
    },
    targets: ({ account, through }: Covering, limit: number): string[] => targets.all(names.idOf("account", account), through, limit),
    settleTarget(pass: Covering, target: string, wamid: string | null, now: number): SettledHydrations {
      const account = names.idOf("account", pass.account);
      if (wamid === null) {
        forgetTarget.run(account, pass.through, target);
        return { events: 0, due: [] };
      }
      const message = messages.find(account, wamid);
      const subject = message === undefined ? null : messageSubject(message.seq);
      const events = ofTarget.all(account, pass.through, target);
      const due = events.flatMap((event) => settleOne(event, { reason: null, unknown: 0, subject, polled: 1 }, now));
      return { events: events.length, due };
    },
    settleCovered(pass: Covering, { reason, unknown, receivedBy }: HydrationEnd, now: number, limit: number): SettledHydrations {
      const account = names.idOf("account", pass.account);
      const polled = calls.get(Number(pass.seq)) ?? 0;
      const events = some.all(account, pass.through, receivedBy, limit);
      const due = events.flatMap((event) => settleOne(event, { reason, unknown, subject: null, polled }, now));
      return { events: events.length, due };
    },
  };
}

type Row = Omit<HydrationRow, "event" | "target">;

/** Reads the hydration of truncated events. */
export function createReadHydrations(db: Db) {
  const one = db.prepare<[number], Row>(
    "SELECT account, state, reason, subject, asked, found, last, unknown, candidates, settled_at FROM hydrations WHERE event = ?",
  );
  const passOf = db
    .prepare<[number, number], number>("SELECT asked FROM hydration_passes WHERE account = ? AND ended_at IS NULL AND through >= ?")
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
    `SELECT e.id, e.seq, m.wamid, e.status ${matching} ORDER BY e.seq LIMIT ${mostFoundShown}`,
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
      const { asked: polled, found: count, unknown } = row;
      return {
        state: hydrationState(row.state),
        reason: giveUpReason(row.reason),
        polled,
        found: count,
        unknown,
        candidates: candidatesOf(row),
      };
    },
    /** With the polled statuses. While it waits: those so far. */
    view(event: number): HydrationView | null {
      const row = one.get(event);
      if (row === undefined) return null;
      const range = { account: row.account, event, last: row.last ?? Number.MAX_SAFE_INTEGER, subject: row.subject };
      const isWaiting = row.settled_at === null;
      return {
        state: hydrationState(row.state),
        reason: giveUpReason(row.reason),
        polled: isWaiting ? (passOf.get(row.account, event) ?? 0) : row.asked,
        found: found.all(range).map(({ id, ...rest }) => ({ id: unpackEventId(id) as EventId, ...rest })),
        foundCount: isWaiting ? (countFound.get(range) ?? 0) : row.found,
        unknown: row.unknown,
        candidates: candidatesOf(row),
        settledAt: row.settled_at,
      };
    },
  };
}
