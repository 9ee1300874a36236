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
}

/** Places in the stored list. claim.lua reads the first. A list has no names, which would be most of its size. */
const order = [
  "subject",
  "account",
  "source",
  "id",
  "kind",
  "origin",
  "receivedAt",
  "createdAt",
  "secret",
  "status",
  "previousStatus",
  "moved",
  "errorCode",
  "disposition",
  "plan",
  "parkedUntil",
  "fault",
  "headers",
  "size",
] as const satisfies readonly (keyof EventRow)[];

export function writeEventRow(row: EventRow): string {
  const { subject, account, source, id, kind, receivedAt, createdAt, secret, status, previousStatus, errorCode } = row;
  const { plan, parkedUntil, fault, headers, size } = row;
  return JSON.stringify([
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
  ]);
}

export function readEventRow(text: string): EventRow {
  const list = JSON.parse(text) as unknown[];
  const row: Record<string, unknown> = {};
  for (const [place, name] of order.entries()) row[name] = list[place] ?? null;
  row["origin"] = origins[row["origin"] as number] ?? "webhook";
  row["moved"] = row["moved"] === 1;
  row["disposition"] = dispositions[row["disposition"] as number] ?? "filtered";
  return row as unknown as EventRow;
}

export const dispositionCode = (disposition: Disposition): string => String(dispositions.indexOf(disposition));
