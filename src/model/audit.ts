import { z } from "zod";
import { count, counts } from "./answers.ts";
import { deliveryStates, dispositions } from "./states.ts";
import { time, type View } from "./view.ts";

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
  "secret usage differs": "the secret usage counts fewer events than are stored, or more than were accepted",
} as const;
export type AuditRule = keyof typeof auditRules;

export interface AuditFilter {
  /** Unix ms of acceptance, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly source?: string | undefined;
}

/** Events by disposition: `received` is the sum of the dispositions and `unaccounted`. */
const eventSums = {
  received: count,
  ...counts(dispositions),
  /** Events that break a rule: counted under no disposition. */
  unaccounted: count,
  /** Known ids that came again, and those of them with other bytes; no part of `received`. */
  duplicates: count,
  conflicts: count,
};
const eventSumsSchema = z.object(eventSums);
export type EventSums = z.infer<typeof eventSumsSchema>;

/** `planned` is the sum of the states, `swept` and `unaccounted`. */
const deliverySums = {
  /** Verdicts to deliver, of the events checked. */
  planned: count,
  ...counts(deliveryStates),
  /** Settled, and deleted by retention while the event stays. */
  swept: count,
  unaccounted: count,
};
const deliverySumsSchema = z.object(deliverySums);
export type DeliverySums = z.infer<typeof deliverySumsSchema>;

const offenderSchema = z.object({
  rule: z.enum(Object.keys(auditRules) as AuditRule[]),
  /** Seq; null when the rule is about no single event. */
  event: z.number().nullable(),
  eventId: z.string().nullable(),
  route: z.string().nullable(),
  /** What is wrong, without wamids and bodies. */
  what: z.string(),
});
export type Offender = View<typeof offenderSchema>;

export const auditSchema = z.object({
  balanced: z.boolean(),
  /** When it began. */
  at: time,
  tookMs: z.number(),
  /** Rows checked. */
  rows: z.object({ events: count, deliveries: count, attempts: count }),
  events: eventSumsSchema,
  /** By day of acceptance (UTC, `2026-11-20`) and source. */
  days: z.array(z.object({ ...eventSums, day: z.string(), source: z.string() })),
  deliveries: deliverySumsSchema,
  routes: z.array(z.object({ ...deliverySums, route: z.string() })),
  /** Events whose numbers are gone: deleted by retention, or missing. */
  gone: z.object({ swept: count, missing: count }),
  /** How often each rule is broken; rules that hold are left out. */
  broken: z.record(z.string(), count),
  /** The first of them. */
  offenders: z.array(offenderSchema),
});
export type AuditReport = View<typeof auditSchema>;
export type RelayAudit = z.infer<typeof auditSchema>;

/** `checked` of `of` events so far. */
export const auditProgressSchema = z.object({ checked: count, of: count });
export type AuditProgress = z.infer<typeof auditProgressSchema>;
