import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { type Attempt, deliveryStates } from "../../model/delivery.ts";
import { type Origin, origins } from "../../model/event.ts";
import { maskNumber } from "../../model/mask.ts";
import { type DeliveryPlan, type Disposition, dispositions, type KeptVerdict, keptVerdicts } from "../../model/plan.ts";

import type { RedisLink } from "./client.ts";
import { type Keys, maskKey, type SubjectName } from "./keys.ts";
import { rowJson } from "./rows.ts";

/** A stored event without its body. Times are unix ms. */
export interface EventRow {
  readonly subject: SubjectName | null;
  readonly account: string;
  readonly source: string;
  /** Null when quarantined. */
  readonly id: string | null;
  readonly kind: string | null;
  readonly origin: Origin;
  readonly receivedAt: number;
  /** The envelope's `createdAt`. */
  readonly createdAt: number | null;
  /** Fingerprint of the secret that verified it. */
  readonly secret: string | null;
  readonly status: string | null;
  /** Status of its message or run before it. */
  readonly previousStatus: string | null;
  readonly moved: boolean;
  readonly errorCode: string | null;
  readonly disposition: Disposition;
  /** Digest of its verdicts, see `planText`. */
  readonly plan: string | null;
  readonly parkedUntil: number | null;
  /** Why it is quarantined. */
  readonly fault: string | null;
  readonly headers: Readonly<Record<string, string>> | null;
  /** Size of its body in bytes. */
  readonly size: number;
  /** Of a released body, the seq of its event; of that event, the seq of the body. */
  readonly release: number | null;
}

/** The row as a JSON list, because names would be most of its size. claim.lua reads the first value. Origin and disposition are indexes. */
type Kept = [
  subject: SubjectName | null,
  account: string,
  source: string,
  id: string | null,
  kind: string | null,
  origin: number,
  receivedAt: number,
  createdAt: number | null,
  secret: string | null,
  status: string | null,
  previousStatus: string | null,
  moved: 0 | 1,
  errorCode: string | null,
  disposition: number,
  plan: string | null,
  parkedUntil: number | null,
  fault: string | null,
  headers: Readonly<Record<string, string>> | null,
  size: number,
  /** Left out when null, as in nearly all rows. */
  release?: number,
];

export function writeEventRow(row: EventRow): string {
  const { subject, account, source, id, kind, receivedAt, createdAt, secret, status, previousStatus, errorCode } = row;
  const { plan, parkedUntil, fault, headers, size, release } = row;
  const kept: Kept = [
    subject,
    account,
    source,
    id,
    kind,
    origins.indexOf(row.origin),
    receivedAt,
    createdAt,
    secret,
    status,
    previousStatus,
    row.moved ? 1 : 0,
    errorCode,
    dispositions.indexOf(row.disposition),
    plan,
    parkedUntil,
    fault,
    headers,
    size,
  ];
  if (release !== null) kept.push(release);
  return JSON.stringify(kept);
}

export function readEventRow(text: string): EventRow {
  const [subject, account, source, id, kind, origin, receivedAt, createdAt, secret, status, previousStatus, ...rest] = JSON.parse(
    text,
  ) as Kept;
  const [moved, errorCode, disposition, plan, parkedUntil, fault, headers, size, release = null] = rest;
  return {
    subject,
    account,
    source,
    id,
    kind,
    origin: origins[origin] ?? "webhook",
    receivedAt,
    createdAt,
    secret,
    status,
    previousStatus,
    moved: moved === 1,
    errorCode,
    disposition: dispositions[disposition] ?? "filtered",
    plan,
    parkedUntil,
    fault,
    headers,
    size,
    release,
  };
}

export const dispositionCode = (disposition: Disposition): string => String(dispositions.indexOf(disposition));

/**
 * Largest body, in bytes, that is stored inline: in the row of its event, after a newline. A key of its own costs Redis
 * some microseconds and 90 bytes, and reads of many rows must not carry large bodies.
 */
export const inlineBytes = 1024;

const lineEnd = 0x0a;

/** A row with an inline body; null: none. Text if possible: Buffer arguments cost the client three times as much. */
export function rowWithBody(row: string, body: Buffer | null): string | Buffer {
  if (body === null) return row;
  return isUtf8(body) ? `${row}\n${body.toString("utf8")}` : Buffer.concat([Buffer.from(`${row}\n`), body]);
}

/** The inline body; null when it has a key of its own. JSON contains no newline. */
export function inlineBody(row: Buffer): Buffer | null {
  const end = row.indexOf(lineEnd);
  return end < 0 ? null : row.subarray(end + 1);
}

/** Bodies of events; null for missing events. */
export async function readBodies(link: RedisLink, keys: Keys, seqs: readonly number[]): Promise<(Buffer | null)[]> {
  if (seqs.length === 0) return [];
  const rows = await link.run((redis) => redis.mgetBuffer(seqs.map(keys.event)));
  const bodies = rows.map((row) => (row === null ? null : inlineBody(row)));
  const apart = seqs.filter((_, index) => rows[index] !== null && bodies[index] === null);
  if (apart.length === 0) return bodies;
  const found = await link.run((redis) => redis.mgetBuffer(apart.map(keys.body)));
  const bySeq = new Map(apart.map((seq, index) => [seq, found[index] ?? null]));
  return seqs.map((seq, index) => bodies[index] ?? bySeq.get(seq) ?? null);
}

export async function readBody(link: RedisLink, keys: Keys, seq: number): Promise<Buffer | null> {
  return (await readBodies(link, keys, [seq]))[0] ?? null;
}

export interface PlanText {
  /** Stored in the event's row. */
  readonly digest: string;
  /** Stored once for all events with these verdicts. */
  readonly verdicts: string;
}

// The planner gives the same object for the same verdicts, so identity finds nearly all of them.
const knownTexts = new WeakMap<DeliveryPlan, PlanText>();

/** The stored text of a plan's verdicts. They depend on the settings alone, so there are few. */
export function planText(plan: DeliveryPlan): PlanText {
  const found = knownTexts.get(plan);
  if (found !== undefined) return found;
  const verdicts = JSON.stringify(keptVerdicts(plan));
  const text = { digest: digestOf(verdicts), verdicts };
  knownTexts.set(plan, text);
  return text;
}

export const digestOf = (verdicts: string): string => createHash("sha256").update(verdicts).digest("base64url").slice(0, 12);

const readVerdicts = (text: string | null): readonly KeptVerdict[] => (text === null ? [] : (JSON.parse(text) as KeptVerdict[]));

/** Number of a state in a delivery's hash. */
export const stateCode = (state: (typeof deliveryStates)[number]): string => String(deliveryStates.indexOf(state));
export const stateOf = (code: string) => deliveryStates[Number(code)] ?? "dead";

/** A stored attempt: `<JSON>\n<bytes of the response>`; without a response there is no newline. */
export function writeAttempt({ at, tookMs, result, response }: Attempt): Buffer | string {
  const status = result.kind === "answered" ? result.status : null;
  const error = result.kind === "failed" ? result.error : null;
  const head = JSON.stringify([at, Math.round(tookMs), status, error]);
  return response === null ? head : Buffer.concat([Buffer.from(`${head}\n`), response]);
}

export function readAttempt(number: number, kept: Buffer) {
  const end = kept.indexOf(0x0a);
  const head = JSON.parse(kept.subarray(0, end < 0 ? kept.length : end).toString("utf8")) as [number, number, number | null, string | null];
  const [at, tookMs, status, error] = head;
  return { number, at, tookMs, status, error, response: end < 0 ? null : kept.subarray(end + 1) };
}

export interface StoredEvent extends EventRow {
  readonly seq: number;
}

/** Rows per read: some 200 KB, and half a millisecond of Redis. */
export const rowsAtOnce = 400;

/** Plans kept in memory. They depend on the settings alone, so there are few. */
const mostPlans = 1_000;

/** Reads the rows of events and their plans. */
export function createStoredEvents(keys: Keys, link: RedisLink) {
  let plans = new Map<string, readonly KeptVerdict[]>();

  /** The stored events of at most `rowsAtOnce` seqs, in the same order. */
  async function rows(seqs: readonly number[]): Promise<StoredEvent[]> {
    if (seqs.length === 0) return [];
    const found = await link.run((redis) => redis.mget(seqs.map(keys.event)));
    return found.flatMap((text, index) => (text === null ? [] : [{ seq: seqs[index] as number, ...readEventRow(rowJson(text)) }]));
  }

  return {
    rows,
    async row(seq: number): Promise<StoredEvent | null> {
      return (await rows([seq]))[0] ?? null;
    },
    /** The verdicts of each event; empty for events without a plan. */
    async verdicts(events: readonly Pick<EventRow, "plan">[]): Promise<(readonly KeptVerdict[])[]> {
      const missing = [...new Set(events.flatMap(({ plan }) => (plan === null || plans.has(plan) ? [] : [plan])))];
      const read = new Map(plans);
      if (missing.length > 0) {
        const found = await link.run((redis) => redis.hmget(`${keys.base}plans`, ...missing));
        if (plans.size + missing.length > mostPlans) plans = new Map();
        for (const [index, digest] of missing.entries()) {
          const text = found[index] ?? null;
          read.set(digest, readVerdicts(text));
          if (text !== null) plans.set(digest, readVerdicts(text));
        }
      }
      return events.map(({ plan }) => (plan === null ? [] : (read.get(plan) ?? [])));
    },
    /** The seqs of events whose masked id has this number. */
    async seqsOfMask(mask: number): Promise<number[]> {
      const found: number[] = [];
      const seqs = (await link.run((redis) => redis.zrange(keys.of(maskKey("e", mask)), "0", "-1"))).map(Number);
      for (let from = 0; from < seqs.length; from += rowsAtOnce) {
        for (const { seq, id } of await rows(seqs.slice(from, from + rowsAtOnce))) {
          if (id !== null && maskNumber(id) === mask) found.push(seq);
        }
      }
      return found;
    },
    /** The seqs of an event id, one per account that has it. */
    async seqsOf(id: string): Promise<number[]> {
      const accounts = await link.run((redis) => redis.smembers(`${keys.base}accounts`));
      if (accounts.length === 0) return [];
      const found = await link.run((redis) => redis.mget(accounts.map((account) => keys.of(`id:${account}:${id}`))));
      return found.flatMap((seq) => (seq === null ? [] : [Number(seq)])).sort((a, b) => a - b);
    },
  };
}

export type StoredEvents = ReturnType<typeof createStoredEvents>;
