import { z } from "zod";
import { count } from "./answers/fields.ts";
import { attentionKinds, attentionTable, severities } from "./attention.ts";
import { component, foreign, time, type View } from "./view.ts";

/*
 * The answer of `GET /v1/overview`, which `GET /v1/live` sends again whenever it changes
 * (docs/reference/endpoints.md).
 */

const attentionSchema = component("Attention", "Something that needs action.", {
  kind: z.enum(attentionKinds).describe(`What is wrong.\n\n${attentionTable}`),
  severity: z
    .enum(severities)
    .describe(
      "`error`: it needs somebody now, and `doctor` fails; `warning`: it can wait for working hours.",
    ),
  subject: foreign.nullable().describe("The route or the account; null: the relay itself."),
  since: time.describe("When it began, or when the relay noticed it."),
  waiting: count
    .nullable()
    .describe("Number of deliveries or events that it concerns; null: they are not counted."),
  nextAt: time
    .nullable()
    .describe("When the relay tries again by itself; null: it does not, or it tries now."),
  text: foreign.describe("What is wrong and what to do, in English."),
  action: z
    .enum(["retry", "resume", "release"])
    .nullable()
    .describe(
      "What the API offers: retry the deliveries, resume the route or account, or release the webhooks; null: nothing.",
    ),
});
export type Attention = View<typeof attentionSchema>;

const destinationStates = ["ok", "attention", "stopped"] as const;

const destinationSchema = component("DestinationStanding", "How a route's destination does.", {
  route: z.string().describe("The route's name in the settings."),
  to: foreign.describe("The host of the URL, or the name of the queue or stream."),
  kind: z.enum(["url", "queue", "stream"]).describe("The kind of destination."),
  state: z
    .enum(destinationStates)
    .describe("`attention`: it has an entry in `attention`; `stopped`: nothing goes out."),
  reason: foreign.nullable().describe("Why the state is not `ok`."),
  since: time.nullable().describe("Since when the state is not `ok`."),
  waiting: count.describe("Deliveries waiting, due or not, including those in flight."),
  held: count.describe("Deliveries held behind another one of their message."),
  dead: count.describe("Dead letters."),
  inFlight: count
    .nullable()
    .describe("Attempts in flight; null: only another process knows the number."),
  successLastHour: z
    .number()
    .nullable()
    .describe(
      "Share of the attempts of the last hour that delivered, from 0 to 1; null: no attempts.",
    ),
  p50Ms: z
    .number()
    .nullable()
    .describe(
      "Median time from receipt to delivery in the last hour; null: nothing was delivered.",
    ),
  p99Ms: z.number().nullable().describe("99th percentile of the same."),
  nextAt: time
    .nullable()
    .describe(
      "When the next attempt is made; null: now, or nothing waits, or the destination is stopped.",
    ),
  handshake: z
    .object({
      doneAt: time
        .nullable()
        .describe("When the last one with its URL and token succeeded; null: none has."),
    })
    .nullable()
    .describe("Meta's handshake with it; null: it has no `verifyToken`."),
});
export type DestinationView = View<typeof destinationSchema>;

const figure = (text: string) =>
  z
    .object({
      value: z.number().nullable().describe("The current value; null: nothing to measure."),
      lastHour: z
        .array(z.number().nullable())
        .describe("The last 60 minutes, the current one last; null: nothing was measured."),
    })
    .describe(text);

export const overviewSchema = component(
  "Overview",
  "What needs action, the figures and the destinations.",
  {
    at: time.describe("When these facts were read."),
    relay: z
      .object({
        version: z.string().describe("Of the relay."),
        instance: z.string().describe("Of this process: a restart gives another one."),
        storage: z.enum(["sqlite", "postgres"]).describe("The storage engine."),
        startedAt: time.describe("When the process started."),
      })
      .describe("The process that answered."),
    attention: z
      .array(attentionSchema)
      .describe("What needs action, the most urgent first; empty: all is well."),
    goodSince: time.describe("When the last entry of `attention` ended, or the process started."),
    figures: z
      .object({
        eventsPerSecond: figure("Events received per second."),
        ackP99Ms: figure("99th percentile of the time from a webhook's request to its answer."),
        oldestDeliverySeconds: figure(
          "How long the oldest due delivery has been waiting; 0: none is due.",
        ),
        deliveredShare: figure(
          "Share of the attempts that delivered, from 0 to 1; the value is that of the last hour.",
        ),
        deadLetters: figure("Dead letters of all routes."),
      })
      .describe("Five numbers, each with its last hour."),
    destinations: z
      .array(destinationSchema)
      .describe("One for each route of the settings, in their order."),
  },
);
export type RelayOverview = z.infer<typeof overviewSchema>;
export type OverviewView = View<typeof overviewSchema>;
