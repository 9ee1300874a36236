import type { Attempt, AttemptError, AttemptResult } from "../../model/delivery.ts";
import { digestOf, inlineBytes, stateCode, writeAttempt, writeEventRow } from "../redis/event-rows.ts";
import { messageName, orderKey, padSeq, placesOfEvent, runName, type SubjectName } from "../redis/keys.ts";
import { type HydrationRow, targetMember, writeHydrationRow } from "../redis/rows.ts";
import { dispositionList, giveUpReason, hydrationState, originList, unpackEventId } from "../sqlite/names.ts";
import type { AttemptRow, DeliveryRow, EventRow, HydrationRow as StoredHydration } from "../sqlite/rows.ts";
import { type Batch, boundsOf, type Carrier, type CarrierParts, rowsAtOnce, type Source } from "./source.ts";

/** Bytes of bodies and responses per batch. */
const mostBytes = 512 * 1024;

/** The Redis name of a message or run, by its number in the file. */
function subjectNames({ source: { db, names } }: Pick<CarrierParts, "source">): (subject: number | null) => SubjectName | null {
  const message = db.prepare<[number], { account: number; wamid: string }>("SELECT account, wamid FROM messages WHERE seq = ?");
  const run = db.prepare<[number], { account: number; run_id: string }>("SELECT account, run_id FROM runs WHERE seq = ?");
  return (subject) => {
    if (subject === null) return null;
    const seq = Math.floor(subject / 2);
    if (subject % 2 === 0) {
      const found = message.get(seq);
      return found === undefined ? null : messageName(names.nameOf(found.account), found.wamid);
    }
    const found = run.get(seq);
    return found === undefined ? null : runName(names.nameOf(found.account), found.run_id);
  };
}

/** Events under their seqs, with their bodies, deliveries, attempts and hydrations. */
export function carryEvents(parts: CarrierParts): Carrier {
  const { source, version } = parts;
  const { db, names } = source;
  const select = db.prepare<[number], EventRow>("SELECT * FROM events WHERE seq > ? ORDER BY seq");
  const verdictsOf = db.prepare<[number], string>("SELECT verdicts FROM plans WHERE id = ?").pluck();
  const digests = new Map<number, string | null>();
  const subjectOf = subjectNames(parts);
  const putDeliveries = carryDeliveries(source);
  const putHydration = carryHydrations({ ...parts, subjectOf });

  function digest(plan: number | null): string | null {
    if (plan === null) return null;
    let found = digests.get(plan);
    if (found === undefined) {
      const verdicts = verdictsOf.get(plan);
      found = verdicts === undefined ? null : digestOf(verdicts);
      digests.set(plan, found);
    }
    return found;
  }

  function put(row: EventRow, batch: Batch): void {
    const { seq, received_at: receivedAt, parked_until: parkedUntil, duplicates, conflicts, body } = row;
    const nameOf = (id: number | null): string | null => (id === null ? null : names.nameOf(id));
    const account = names.nameOf(row.account);
    const id = unpackEventId(row.id);
    const subject = subjectOf(row.subject);
    const origin = originList[row.origin] ?? "webhook";
    const disposition = dispositionList[row.disposition] ?? "filtered";
    const event = writeEventRow({
      subject,
      account,
      source: names.nameOf(row.source),
      id,
      kind: nameOf(row.kind),
      origin,
      receivedAt,
      createdAt: row.created_at,
      secret: nameOf(row.secret),
      status: row.status,
      previousStatus: row.previous_status,
      moved: row.moved === 1,
      errorCode: row.error_code,
      disposition,
      plan: digest(row.plan),
      parkedUntil,
      fault: row.fault,
      headers: row.headers === null ? null : JSON.parse(row.headers),
      size: body.length,
      release: row.release,
    });
    const member = String(seq);
    const stored = version() + event;
    if (body.length <= inlineBytes) batch.set(`e:${seq}`, Buffer.concat([Buffer.from(`${stored}\n`), body]));
    else {
      batch.set(`e:${seq}`, stored);
      batch.set(`b:${seq}`, body);
    }
    batch.live(seq);
    if (id !== null) {
      batch.set(`id:${account}:${id}`, member);
      for (const place of placesOfEvent(id)) batch.list(place, seq, member);
      batch.member("accounts", account);
    }
    if (duplicates > 0) batch.hash("dups", member, String(duplicates));
    if (conflicts > 0) batch.hash("conflicts", member, String(conflicts));
    if (subject !== null) batch.list(`es:${subject}`, seq, member);
    if (disposition === "ignored" || disposition === "quarantined") batch.list(disposition, receivedAt, member);
    if (origin !== "webhook") batch.list(`made:${account}`, seq, member);
    if (parkedUntil !== null) {
      batch.list("parked", parkedUntil, padSeq(seq));
      if (subject !== null) batch.list(`pk:${subject}`, seq, member);
    }
    if (subject === null) putHydration(seq, account, receivedAt, batch);
    putDeliveries({ seq, subject, receivedAt }, batch);
  }

  return {
    kind: "events",
    ...boundsOf(source, "events"),
    next(after, batch) {
      let last: number | null = null;
      let rows = 0;
      for (const row of select.iterate(after)) {
        put(row, batch);
        last = row.seq;
        rows += 1;
        if (rows >= rowsAtOnce || batch.bytes >= mostBytes) break;
      }
      return last;
    },
  };
}

interface OfEvent {
  readonly seq: number;
  readonly subject: SubjectName | null;
  readonly receivedAt: number;
}

/** The deliveries of an event with their attempts, in the lists of their states. The order per message stays. */
function carryDeliveries({ db, names }: Source) {
  const deliveries = db.prepare<[number], DeliveryRow>("SELECT * FROM deliveries WHERE event = ?");
  const attempts = db.prepare<[number, number], AttemptRow>(
    "SELECT number, at, took_ms, status, error, response FROM attempts WHERE event = ? AND route = ?",
  );

  function put(row: DeliveryRow, { seq, subject, receivedAt }: OfEvent, batch: Batch): void {
    const route = names.nameOf(row.route);
    const order = row.subject === null || subject === null ? null : orderKey(subject);
    const state = String(row.state);
    const isWaiting = state === stateCode("waiting");
    // A proxy exchange has no due time.
    const isExchange = isWaiting && row.next_at === null;
    const nextAt = isWaiting ? row.next_at : null;
    const key = `d:${seq}:${route}`;
    const member = String(seq);
    batch.member("routes", route);
    batch.hash(key, "s", state);
    if (order !== null) batch.hash(key, "o", order);
    if (nextAt !== null) batch.hash(key, "n", String(nextAt));
    if (row.spent > 0) batch.hash(key, "p", String(row.spent));
    if (row.replays > 0) batch.hash(key, "rp", String(row.replays));
    if (row.settled_at !== null) batch.hash(key, "t", String(row.settled_at));
    if (row.attempts > 0) {
      batch.hash(key, "a", String(row.attempts));
      for (const attempt of attempts.all(seq, row.route)) batch.hash(key, `a${attempt.number}`, writeAttempt(attemptOf(attempt)));
    }
    if (isExchange) batch.list(`px:${route}`, receivedAt, member);
    if (nextAt !== null) {
      batch.list(`due:${route}`, nextAt, padSeq(seq));
      if (order !== null) batch.set(`o:${route}:${order}`, member);
    }
    if (state === stateCode("held")) {
      batch.list(`held:${route}`, seq, member);
      if (order !== null) batch.list(`oh:${route}:${order}`, seq, member);
    }
    if (state === stateCode("dead")) {
      batch.hash(key, "r", row.reason ?? "");
      batch.list(`dead:${route}`, seq, member);
    }
    if (row.cause !== null) {
      batch.hash(key, "k", row.cause);
      if (isWaiting || state === stateCode("dead")) {
        batch.member(`causes:${route}`, `${state}:${row.cause}`);
        batch.list(`cause:${route}:${state}:${row.cause}`, seq, member);
      }
    }
  }

  return (event: OfEvent, batch: Batch): void => {
    for (const row of deliveries.all(event.seq)) put(row, event, batch);
  };
}

function attemptOf({ number, at, took_ms: tookMs, response, ...row }: AttemptRow): Attempt {
  return { number, at, tookMs, result: resultOf(row), response };
}

function resultOf({ status, error }: Pick<AttemptRow, "status" | "error">): AttemptResult {
  if (error !== null) return { kind: "failed", error: error as AttemptError };
  return status === null ? { kind: "taken" } : { kind: "answered", status, retryAfterMs: null };
}

interface HydrationParts extends CarrierParts {
  readonly subjectOf: (subject: number | null) => SubjectName | null;
}

/** The hydration of a truncated event. A waiting one is in the list of the pass that covers it, or of the next pass. */
function carryHydrations({ source: { db, names }, version, subjectOf }: HydrationParts) {
  const select = db.prepare<[number], StoredHydration>("SELECT * FROM hydrations WHERE event = ?");
  const passes = db.prepare<[], { account: number; through: number }>(
    "SELECT account, through FROM hydration_passes WHERE ended_at IS NULL",
  );
  const covered = new Map(passes.all().map(({ account, through }) => [names.nameOf(account), through]));

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

function hydrationOf(row: StoredHydration, subjectOf: HydrationParts["subjectOf"]): HydrationRow {
  return {
    state: hydrationState(row.state),
    reason: giveUpReason(row.reason),
    target: row.target,
    polled: row.asked,
    found: row.found,
    // The embedded engine stores the event itself as `last` when hydration ended at once without a call.
    last: row.last === row.event ? null : row.last,
    subject: subjectOf(row.subject),
    unknown: row.unknown,
    candidates: row.candidates === null ? null : JSON.parse(row.candidates),
    settledAt: row.settled_at,
  };
}
