import type { Disposition } from "./plan.ts";

/**
 * The rules that `audit` checks (docs/audit.md has the same list). Each concerns single rows, so that every violation has an
 * offender with a seq.
 */
export const auditRules = {
  "event missing": "a seq has no event, and retention cannot have deleted it",
  "event without plan": "it has no verdicts of routes",
  "wrong disposition": "its disposition does not follow from the verdicts of its routes",
  "planning broken": "it waits to be planned but is not queued, or the reverse",
  "parking broken": "a route parks it without a time limit or hydration, or the reverse",
  "parked too long": "its time limit ended more than five minutes before the relay's last activity",
  "delivery missing": "a route's verdict is to deliver, but there is no delivery, and retention cannot have deleted it",
  "delivery not planned": "the route's verdict was not to deliver",
  "delivery without event": "its event does not exist",
  "delivery contradicts itself": "its state contradicts its times",
  "attempts miscounted": "its number of attempts differs from the stored attempts",
  "attempt without delivery": "its delivery does not exist",
  "order broken": "of the deliveries of a message on a route, not exactly one is next",
  "id repeated": "two events of an account have the same id, or the unique index is missing",
  "proofs differ": "the secret usage counts fewer events than are stored, or more than were accepted",
} as const;
export type AuditRule = keyof typeof auditRules;

export interface AuditFilter {
  /** Unix ms of acceptance, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly source?: string | undefined;
}

/** Events by disposition. `received` is the sum of the dispositions and `unaccounted`. */
export interface EventSums extends Record<Disposition, number> {
  received: number;
  /** Events that violate a rule, which no disposition counts. */
  unaccounted: number;
  /** Repeated ids, and those of them with other bytes. Not part of `received`. */
  duplicates: number;
  conflicts: number;
}

/** Deliveries: `planned` is the sum of the states, `swept` and `unaccounted`. */
export interface DeliverySums {
  /** Verdicts to deliver of the checked events. */
  planned: number;
  waiting: number;
  held: number;
  delivered: number;
  dead: number;
  /** Settled, and deleted by retention before their event. */
  swept: number;
  unaccounted: number;
}

export interface Offender {
  readonly rule: AuditRule;
  /** Seq; null when the rule concerns no single event. */
  readonly event: number | null;
  readonly eventId: string | null;
  readonly route: string | null;
  /** What is wrong, without wamids and bodies. */
  readonly what: string;
}

export interface AuditReport {
  readonly balanced: boolean;
  /** Unix ms of its start. */
  readonly at: number;
  readonly tookMs: number;
  /** Rows checked. */
  readonly rows: { readonly events: number; readonly deliveries: number; readonly attempts: number };
  readonly events: EventSums;
  /** By day of acceptance (UTC, `2026-11-20`) and source. */
  readonly days: readonly (EventSums & { readonly day: string; readonly source: string })[];
  readonly deliveries: DeliverySums;
  readonly routes: readonly (DeliverySums & { readonly route: string })[];
  /** Seqs without an event: deleted by retention, or missing. */
  readonly gone: { readonly swept: number; readonly missing: number };
  /** Violations by rule, without rules that hold. */
  readonly broken: Readonly<Partial<Record<AuditRule, number>>>;
  /** The first offenders. */
  readonly offenders: readonly Offender[];
}
