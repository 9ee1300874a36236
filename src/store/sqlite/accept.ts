import { createdAtOf, isTruncated } from "../../model/envelope.ts";
import type { QuarantinedBody, ReceivedEvent } from "../../model/event.ts";
import { hiddenNumber } from "../../model/mask.ts";
import { planArrival } from "../../track/planning.ts";
import type { AcceptOutcome, Rules } from "../rules.ts";

import type { Db } from "./file.ts";
import { type HistoryWriter, noSubject } from "./history.ts";
import type { createHydrations } from "./hydrations.ts";
import { dispositionCode, type Names, originCode, packEventId } from "./names.ts";
import type { SecretUseCounts } from "./notes.ts";
import type { Parking } from "./parking.ts";
import type { PlanDeliveries, Plans } from "./plans.ts";
import type { createTrack } from "./track.ts";

interface Parts {
  names: Names;
  plans: Plans;
  rules: Rules;
  track: ReturnType<typeof createTrack>;
  planDeliveries: PlanDeliveries;
  secretUses: SecretUseCounts;
  history: Pick<HistoryWriter, "count">;
  parking: Pick<Parking, "isReleasing">;
  hydrations: Pick<ReturnType<typeof createHydrations>, "begin">;
}

/**
 * Accepts, tracks and plans an event inside one transaction. A known id only raises its count of duplicates, so a
 * redelivery can neither change a status nor be planned again.
 */
export function createAccept(db: Db, { names, plans, rules, track, planDeliveries, secretUses, history, hydrations, parking }: Parts) {
  const known = db.prepare<[number, Buffer | string], { seq: number; body: Buffer }>(
    "SELECT seq, body FROM events WHERE account = ? AND id = ?",
  );
  const countDuplicate = db.prepare<[number, number]>(
    "UPDATE events SET duplicates = duplicates + 1, conflicts = conflicts + ? WHERE seq = ?",
  );
  const insert = db.prepare(`
    INSERT INTO events (account, id, kind, source, origin, received_at, created_at, secret, subject, status, previous_status,
      moved, error_code, disposition, plan, parked_until, fault, headers, body, release, mask)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const insertQuarantined = db.prepare(`
    INSERT INTO events (account, source, origin, received_at, secret, moved, disposition, fault, headers, body)
    VALUES (?, ?, ?, ?, ?, 0, ${dispositionCode.quarantined}, ?, ?, ?)`);

  /** `proxyRoute`: the exchange that a `mode: proxy` source makes at once, recorded as a delivery that no dispatcher picks up. */
  function accept(event: ReceivedEvent, proxyRoute: string | null): AcceptOutcome {
    const account = names.idOf("account", event.account);
    const id = packEventId(event.envelope.id);
    const source = names.idOf("source", event.source);
    const secret = event.secret === null ? null : names.idOf("secret", event.secret);
    const same = known.get(account, id);
    // A duplicate shows that its secret is in use, as a new event does.
    secretUses.count(source, secret, same === undefined, event.receivedAt);
    if (same !== undefined) {
      const conflict = !same.body.equals(event.body);
      countDuplicate.run(conflict ? 1 : 0, same.seq);
      return { result: "duplicate", seq: same.seq, conflict };
    }
    const at = createdAtOf(event.envelope, event.receivedAt);
    const tracked = track(account, event, at);
    const { subject, tracking } = tracked;
    const status = event.subject.type === "none" ? null : event.subject.status;
    const errorCode = event.subject.type === "message" ? event.subject.errorCode : null;
    const truncated = isTruncated(event.envelope);
    const hydration = truncated
      ? rules.hydration({ event: event.envelope.event, account: event.account, hasSubject: subject !== null })
      : null;
    const hydrating = hydration?.state === "waiting";
    const routed = {
      event: event.envelope.event,
      account: event.account,
      source: event.source,
      status,
      errorCode,
      data: event.envelope.data,
      truncated,
      hydrating,
    };
    const isBehind = subject !== null && tracking.tracked && parking.isReleasing(subject);
    const plan = planArrival(rules, { event: routed, tracking, error: tracked.error, isBehind, proxyRoute });
    const parked = plan.verdicts.some((verdict) => verdict.verdict === "park");
    const seq = Number(
      insert.run(
        account,
        id,
        names.idOf("kind", event.envelope.event),
        source,
        originCode[event.origin],
        event.receivedAt,
        at,
        secret,
        subject,
        status,
        tracking.previousStatus,
        tracking.transition === null ? 0 : 1,
        errorCode,
        dispositionCode[plan.disposition],
        plans.idOf(plan),
        // An event that waits for hydration is released by it and has no time limit of its own.
        parked && !hydrating ? event.receivedAt + rules.parkFor : null,
        plan.fault ?? null,
        headersText(event.headers),
        event.body,
        event.releaseOf ?? null,
        hiddenNumber(event.envelope.id),
      ).lastInsertRowid,
    );
    history.count("events", source, plan.disposition, event.receivedAt);
    for (const [series, label] of tracked.counts) {
      history.count(series, series === "transitions" || series === "skipped" ? source : noSubject, label, event.receivedAt);
    }
    if (hydration !== null) hydrations.begin(seq, account, event, hydration);
    const due = planDeliveries(seq, subject, plan, event.receivedAt, proxyRoute);
    return { result: "accepted", seq, disposition: plan.disposition, due };
  }

  function quarantine(body: QuarantinedBody): number {
    const source = names.idOf("source", body.source);
    const secret = body.secret === null ? null : names.idOf("secret", body.secret);
    secretUses.count(source, secret, true, body.receivedAt);
    history.count("events", source, "quarantined", body.receivedAt);
    return Number(
      insertQuarantined.run(
        names.idOf("account", body.account),
        source,
        originCode[body.origin],
        body.receivedAt,
        secret,
        body.error,
        headersText(body.headers),
        body.body,
      ).lastInsertRowid,
    );
  }

  return { accept, quarantine };
}

function headersText(headers: Readonly<Record<string, string>>): string | null {
  for (const _ in headers) return JSON.stringify(headers);
  return null;
}
