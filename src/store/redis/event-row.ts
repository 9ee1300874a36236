import { type Disposition, dispositions } from "../../event/plan.ts";
import { type Origin, origins } from "../../event/received.ts";
import type { SubjectName } from "./keys.ts";

/** An event as it is stored, without its bytes. Times are unix ms. */
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
  /** Fingerprint of the secret that proved it. */
  readonly secret: string | null;
  readonly status: string | null;
  /** Of its message or run, before it. */
  readonly previousStatus: string | null;
  readonly moved: boolean;
  readonly errorCode: string | null;
  readonly disposition: Disposition;
  /** Digest of its verdicts, see plan-texts.ts. */
  readonly plan: string | null;
  readonly parkedUntil: number | null;
  /** Why it is quarantined. */
  readonly fault: string | null;
  readonly headers: Readonly<Record<string, string>> | null;
  /** Bytes of its body. */
  readonly size: number;
  /** Of a released body: seq of the event that it became. Of an event that came so: seq of that body. */
  readonly release: number | null;
}

/** The row as a list, which has no names: they would be most of its size. claim.lua reads the first. Origin and disposition are their places in their lists. */
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
  /** Not there: null, as of nearly all. */
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
