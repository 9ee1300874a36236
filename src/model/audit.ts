import { z } from "zod";
import { count, counts } from "./answers/fields.ts";
import type { auditQuery } from "./queries.ts";
import { deliveryStates, dispositions } from "./states.ts";
import { component, foreign, pii, time, type View } from "./view.ts";

/**
 * docs/how-to/explain-an-event.md has the same list. Each rule concerns single rows, so that every
 * violation has an offender with a seq.
 */
export const auditRules = {
  "event missing":
    "a seq has no event, and retention cannot have deleted it; on PostgreSQL, where seqs have gaps, `history differs`",
  "event without plan": "it has no verdicts of routes",
  "wrong disposition": "its disposition does not follow from the verdicts of its routes",
  "status moved back":
    "it moved its message or run to a status that does not follow the one before",
  "parking broken": "a route parks it without a time limit or hydration, or the reverse",
  "parked too long": "its time limit ended more than five minutes before the relay's last activity",
  "delivery missing":
    "a route's verdict is to deliver, but there is no delivery, and retention cannot have deleted it",
  "delivery not planned": "the route's verdict was not to deliver",
  "delivery without event": "its event does not exist",
  "delivery contradicts itself":
    "its state contradicts its times, its attempts or its place in the queue",
  "attempts miscounted": "its number of attempts differs from the stored attempts",
  "attempt without delivery": "its delivery does not exist",
  "order broken": "of the deliveries of a message on a route, not exactly one is next",
  "id repeated": "two events of an account have the same id, or the unique index is missing",
  "secret usage differs":
    "the secret usage counts fewer events than are stored, or more than were accepted",
  "history differs":
    "the history of an hour counts other events, transitions or attempts than are stored",
} as const;
export type AuditRule = keyof typeof auditRules;

export type AuditFilter = Partial<Omit<z.infer<typeof auditQuery>, "wait">>;

export const eventSums = {
  received: count.describe("Events received."),
  ...counts(dispositions, (word) => `Events with the disposition \`${word}\`.`),
  unaccounted: count.describe("Events that break a rule, counted under no disposition."),
  duplicates: count.describe(
    "How often a known event id was received again; not part of `received`.",
  ),
  conflicts: count.describe("Duplicates with other bytes."),
};
const eventSumsSchema = component("EventSums", "Events by disposition.", eventSums);
export type EventSums = z.infer<typeof eventSumsSchema>;

export const deliverySums = {
  planned: count.describe("Verdicts to deliver, of the events checked."),
  ...counts(deliveryStates, (word) => `Deliveries in the state \`${word}\`.`),
  deleted: count.describe("Settled deliveries that retention deleted before their event."),
  unaccounted: count.describe("Deliveries that break a rule, counted under no state."),
};
const deliverySumsSchema = component("DeliverySums", "Deliveries by state.", deliverySums);
export type DeliverySums = z.infer<typeof deliverySumsSchema>;

const offenderSchema = component("Offender", "A row that breaks a rule.", {
  rule: z.enum(Object.keys(auditRules) as AuditRule[]).describe("The rule that it breaks."),
  event: z
    .int()
    .nullable()
    .describe("Seq of the event; null when the rule is about no single event."),
  eventId: pii("event", z.string()).nullable().describe("Id of the event, if known."),
  route: z.string().nullable().describe("The route, for rules about deliveries."),
  what: foreign.describe("What is wrong, without wamids and bodies."),
});
export type Offender = View<typeof offenderSchema>;

export const auditSchema = component(
  "AuditReport",
  "Whether everything that was received is accounted for.",
  {
    balanced: z.boolean().describe("Whether every rule holds."),
    at: time.describe("When the audit began."),
    tookMs: z.number().describe("Milliseconds that it took."),
    rows: z
      .object({
        events: count.describe("Events checked."),
        deliveries: count.describe("Deliveries checked."),
        attempts: count.describe("Attempts checked."),
      })
      .describe("Rows checked."),
    events: eventSumsSchema.describe(
      "Events by disposition. `received` is the sum of the dispositions and `unaccounted`.",
    ),
    days: z
      .array(
        component("DaySums", "Events of one day and source.", {
          ...eventSums,
          day: z.string().describe("Day of acceptance in UTC, such as `2026-11-20`."),
          source: z.string().describe("The source."),
        }),
      )
      .describe("Events by day of acceptance and source."),
    deliveries: deliverySumsSchema.describe(
      "Deliveries by state. `planned` is the sum of the states, `deleted` and `unaccounted`.",
    ),
    routes: z
      .array(
        component("RouteSums", "Deliveries of one route.", {
          ...deliverySums,
          route: z.string().describe("The route."),
        }),
      )
      .describe("Deliveries by route."),
    gone: z
      .object({
        deleted: count.describe("Deleted by retention."),
        missing: count.describe("Missing for no known reason."),
      })
      .describe("Seqs without an event."),
    broken: z
      .record(z.string(), count)
      .describe("How often each rule is broken; rules that hold are left out."),
    offenders: z.array(offenderSchema).describe("The first hundred rows that break a rule."),
  },
);
export type AuditReport = View<typeof auditSchema>;
export type RelayAudit = z.infer<typeof auditSchema>;

export const auditProgressSchema = component("AuditProgress", "How far a running audit is.", {
  checked: count.describe("Events checked so far."),
  of: count.describe("Events to check."),
});
export type AuditProgress = z.infer<typeof auditProgressSchema>;
