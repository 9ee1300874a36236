import type { Disposition } from "./plan.ts";

/**
 * What `audit` holds a store to. Each rule is about single rows, so that every break has an offender with a number
 * (docs/audit.md has the same list).
 */
export const auditRules = {
  "event missing": "its number is gone, and retention cannot have taken it",
  "event without plan": "nothing says what the routes made of it",
  "wrong disposition": "its one word is not the one that follows from the verdicts of its routes",
  "planning broken": "it waits to be planned and nobody would, or the other way round",
  "parking broken": "a route waits for it and no time or hydration ends that, or the other way round",
  "parked too long": "its time was over more than five minutes before the relay last did anything",
  "delivery missing": "a route was to get it, and there is no delivery that retention could have taken",
  "delivery not planned": "the route's verdict was not to get it",
  "delivery without event": "there is no such event",
  "delivery contradicts itself": "its state and its times cannot both be true",
  "attempts miscounted": "it says another number of attempts than were written down",
  "attempt without delivery": "there is no such delivery",
  "order broken": "of one message on one route not exactly one delivery is next: none, or several at once",
  "id repeated": "two events of one account have the same id, or the index that prevents it is gone",
  "proofs differ": "secrets are said to have proved less than is stored, or more than was ever accepted",
} as const;
export type AuditRule = keyof typeof auditRules;

export interface AuditFilter {
  /** Unix ms of acceptance, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly source?: string | undefined;
}

/** Events by what became of them: `received` is the sum of the dispositions and `unaccounted`. */
export interface EventSums extends Record<Disposition, number> {
  received: number;
  /** Events that break a rule: counted under no word. */
  unaccounted: number;
  /** Known ids that came again, and those of them with other bytes; no part of `received`. */
  duplicates: number;
  conflicts: number;
}

/** Deliveries: `planned` is the sum of the states, `swept` and `unaccounted`. */
export interface DeliverySums {
  /** Verdicts to deliver, of the events looked at. */
  planned: number;
  waiting: number;
  held: number;
  delivered: number;
  dead: number;
  /** Settled, and taken away by retention while the event stays. */
  swept: number;
  unaccounted: number;
}

export interface Offender {
  readonly rule: AuditRule;
  /** Seq; null when the rule is about no single event. */
  readonly event: number | null;
  readonly eventId: string | null;
  readonly route: string | null;
  /** What is wrong, without wamids and bodies. */
  readonly what: string;
}

export interface AuditReport {
  readonly balanced: boolean;
  /** Unix ms at which it began. */
  readonly at: number;
  readonly tookMs: number;
  /** Rows looked at. */
  readonly rows: { readonly events: number; readonly deliveries: number; readonly attempts: number };
  readonly events: EventSums;
  /** By day of acceptance (UTC, `2026-11-20`) and source. */
  readonly days: readonly (EventSums & { readonly day: string; readonly source: string })[];
  readonly deliveries: DeliverySums;
  readonly routes: readonly (DeliverySums & { readonly route: string })[];
  /** Events whose numbers are gone: taken by retention, or missing. */
  readonly gone: { readonly swept: number; readonly missing: number };
  /** How often each rule is broken; rules that hold are left out. */
  readonly broken: Readonly<Partial<Record<AuditRule, number>>>;
  /** The first of them. */
  readonly offenders: readonly Offender[];
}
