import { z } from "zod";
import {
  deliveryGroupsSchema,
  deliveryPageSchema,
  eventDetailSchema,
  eventPageSchema,
} from "../answers/events.ts";
import { statsSchema } from "../answers/relay.ts";
import {
  explainedSchema,
  messagePageSchema,
  messageSchema,
  runPageSchema,
} from "../answers/subjects.ts";
import { auditProgressSchema, auditSchema } from "../audit.ts";
import { overviewSchema } from "../overview.ts";
import { qualitySchema } from "../quality.ts";
import {
  accountQuery,
  auditQuery,
  deliveryQuery,
  eventQuery,
  explainQuery,
  groupQuery,
  messageQuery,
  qualityQuery,
  runQuery,
  searchQuery,
  seriesQuery,
} from "../queries.ts";
import { seriesSchema, seriesTable } from "../series.ts";
import { component, foreign, pii, time, type View } from "../view.ts";

const searchHitSchema = component("SearchHit", "One thing that a search found.", {
  kind: z.enum(["message", "run", "event", "delivery"]).describe("What was found."),
  id: pii("hit", z.string()).describe(
    "The wamid, run id, event id or delivery id; of a quarantined body its seq.",
  ),
  seq: z
    .int()
    .min(0)
    .nullable()
    .describe("The seq of the event, or of the delivery's event; null for messages and runs."),
  account: z.string().describe("The account that it belongs to."),
  label: foreign.describe(
    "The reference of a message or run, the kind of an event, the route of a delivery; empty when there is none.",
  ),
  status: foreign
    .nullable()
    .describe("The status; of a delivery its state, of an event without a status its disposition."),
  at: time.describe(
    "When the message or run changed, the event was received, or the delivery settled.",
  ),
});
export type SearchHitView = View<typeof searchHitSchema>;
export type SearchHit = z.infer<typeof searchHitSchema>;

export const searchSchema = component("SearchHits", "What a search found.", {
  data: z
    .array(searchHitSchema)
    .describe(
      "At most 20, best first: what has exactly this name, then phone numbers, then references.",
    ),
  more: z.boolean().describe("Whether there may be more. The lists have all of them."),
});

export const reading = {
  getOverview: {
    scope: "read",
    accounts: "whole",
    summary: "What needs action, the figures of the last hour, and the state of each destination",
    description:
      "`GET /v1/live` sends it whenever it changes. Counts of deliveries are at most five seconds old.",
    answers: { 200: { schema: overviewSchema } },
  },
  getSeries: {
    scope: "read",
    accounts: "whole",
    summary: "Counts, percentiles and gauges over time",
    description: `The relay counts in the transaction that stores what it counts. A percentile is at most 19 % from the exact one. If that is 1 or less, the percentile is between 0 and 1. Minutes become hours after two days.

${seriesTable}`,
    query: seriesQuery,
    answers: { 200: { schema: seriesSchema } },
  },
  getQuality: {
    scope: "read",
    accounts: "narrowed",
    summary: "How many messages arrived, what failed and why, and how long they took",
    description:
      "Counts the messages that were sent in the range, and which statuses they reached in it. For all messages, the beginning of the range is an estimate, from the times between send and status. With `account`, `route` or `reference`, or a limited token, the relay counts stored events, which takes about a second per million and reaches back to `retention.events`.",
    query: qualityQuery,
    answers: { 200: { schema: qualitySchema } },
  },
  listEvents: {
    scope: "read",
    accounts: "narrowed",
    summary: "Events, without their bodies",
    description: "Give at most one of `wamid`, `subject` and `q`.",
    query: eventQuery,
    answers: { 200: { schema: eventPageSchema } },
    errors: ["too_many_guesses"],
  },
  getEvent: {
    scope: "read",
    accounts: "narrowed",
    summary: "One event with its bytes, the verdicts of the routes, and its deliveries",
    description: "When events of several accounts have the id, `bad_request` lists them.",
    params: z.strictObject({ id: z.coerce.string<string | number>().describe("Its id or seq.") }),
    query: accountQuery,
    answers: { 200: { schema: eventDetailSchema } },
    errors: ["not_found", "too_many_guesses"],
  },
  listDeliveries: {
    scope: "read",
    accounts: "narrowed",
    summary: "Deliveries, those of the newest events first",
    query: deliveryQuery,
    answers: { 200: { schema: deliveryPageSchema } },
  },
  groupDeliveries: {
    scope: "read",
    accounts: "narrowed",
    summary: "Undelivered deliveries, counted by route, state and cause",
    query: groupQuery,
    answers: { 200: { schema: deliveryGroupsSchema } },
  },
  listMessages: {
    scope: "read",
    accounts: "narrowed",
    summary: "Messages that are registered or have a status",
    description: "With `q` or `phone` also inbound messages without a status.",
    query: messageQuery,
    answers: { 200: { schema: messagePageSchema } },
    errors: ["too_many_guesses"],
  },
  getMessage: {
    scope: "read",
    accounts: "narrowed",
    summary: "One message with its status, registered or only seen",
    description: "When several messages have the name, `bad_request` lists them.",
    params: z.strictObject({
      wamid: z.string().describe("Its wamid, else the service's id, else its reference."),
    }),
    query: accountQuery,
    answers: { 200: { schema: messageSchema } },
    errors: ["not_found", "too_many_guesses"],
  },
  listRuns: {
    scope: "read",
    accounts: "narrowed",
    summary: "Automation runs with their status",
    query: runQuery,
    answers: { 200: { schema: runPageSchema } },
    errors: ["too_many_guesses"],
  },
  search: {
    scope: "read",
    accounts: "narrowed",
    summary: "What a text can name: messages, runs, events and deliveries",
    description:
      "For a search box. `q` of `GET /v1/messages`, `/v1/runs` and `/v1/events` finds all rows, page by page.",
    query: searchQuery,
    answers: { 200: { schema: searchSchema } },
    errors: ["too_many_guesses"],
  },
  getStats: {
    scope: "read",
    accounts: "whole",
    summary: "Sums of events, deliveries and attempts",
    description: "Counts every row, which takes about a second per million events.",
    answers: { 200: { schema: statsSchema } },
  },
  audit: {
    scope: "read",
    accounts: "whole",
    summary: "Whether everything that was received is accounted for",
    description:
      "202 with the progress when the audit takes longer than `wait`. Repeat the request to join the same audit.",
    query: auditQuery,
    answers: {
      200: { schema: auditSchema },
      202: { schema: auditProgressSchema },
    },
    errors: ["not_found"],
  },
  explain: {
    scope: "read",
    accounts: "narrowed",
    summary: "The whole story of an event, message or run, without bodies",
    params: z.strictObject({
      name: z
        .string()
        .describe(
          "An event's id or seq, or the id of a delivery of it; a message's wamid, id or reference; a run's id or reference. The first in this order that exists.",
        ),
    }),
    query: explainQuery,
    answers: { 200: { schema: explainedSchema } },
    errors: ["not_found", "too_many_guesses"],
  },
} as const;
