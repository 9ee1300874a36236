import { inlineBytes } from "../redis/bodies.ts";
import { writeEventRow } from "../redis/event-row.ts";
import { messageName, padSeq, runName, type SubjectName } from "../redis/keys.ts";
import { digestOf } from "../redis/plan-texts.ts";
import { dispositionList, originList, unpackEventId } from "../sqlite/names.ts";
import type { Batch } from "./batch.ts";
import { boundsOf, type Carrier, type CarrierParts, rowsAtOnce } from "./carrier.ts";
import { carryDeliveries } from "./carry-deliveries.ts";
import { carryHydrations } from "./carry-hydrations.ts";

interface Row {
  seq: number;
  account: number;
  id: Buffer | string | null;
  kind: number | null;
  source: number;
  origin: number;
  received_at: number;
  created_at: number | null;
  secret: number | null;
  subject: number | null;
  status: string | null;
  previous_status: string | null;
  moved: number;
  error_code: string | null;
  disposition: number;
  plan: number | null;
  parked_until: number | null;
  duplicates: number;
  conflicts: number;
  fault: string | null;
  release: number | null;
  headers: string | null;
  body: Buffer;
}

/** Bodies and answers of one batch. */
const mostBytes = 512 * 1024;

/** The name of what an event is about, by its number in the file. */
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

/** Events under their seqs, with their bytes, deliveries, attempts, and what became of those that came truncated. */
export function carryEvents(parts: CarrierParts): Carrier {
  const { source, version } = parts;
  const { db, names } = source;
  const select = db.prepare<[number], Row>("SELECT * FROM events WHERE seq > ? ORDER BY seq");
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

  function put(row: Row, batch: Batch): void {
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
      batch.member("accounts", account);
    }
    if (duplicates > 0) batch.hash("dups", member, String(duplicates));
    if (conflicts > 0) batch.hash("conflicts", member, String(conflicts));
    if (subject !== null) batch.list(`es:${subject}`, seq, member);
    if (disposition === "ignored" || disposition === "quarantined") batch.list(disposition, receivedAt, member);
    if (origin !== "webhook") batch.list(`learned:${account}`, seq, member);
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
