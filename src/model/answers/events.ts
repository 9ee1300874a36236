import { z } from "zod";
import { giveUpReasons, hydrationStates } from "../hydration.ts";
import { type DeliveryState, deliveryStates, dispositions } from "../states.ts";
import { component, foreign, pii, time, type View } from "../view.ts";
import { count, foreignText, foreignWord, nextSeq, nextText, route, seq, text } from "./fields.ts";

export const eventSchema = component("Event", "A received event.", {
  seq: seq.describe("The relay's own number of the event, which grows."),
  id: pii("event", text).describe("The envelope's id; null when quarantined."),
  event: pii("kind", text).describe(
    "The event kind, such as `message.status`; null when quarantined.",
  ),
  account: z.string().describe("The account of its source."),
  source: z.string().describe("The source that received it."),
  origin: z.string().describe("Where it comes from: `webhook`, `hydrate`, `reconcile` and others."),
  receivedAt: time.describe("When the relay received it."),
  createdAt: time.nullable().describe("When the service created it; null when quarantined."),
  secret: text.describe(
    "Fingerprint of the secret that verified it; null when the relay made the event.",
  ),
  subject: pii(
    "subject",
    z.object({
      type: z.enum(["message", "run"]).describe("What it is."),
      key: z.string().describe("The wamid of a message, or the run id of a run."),
    }),
  )
    .nullable()
    .describe("The message or run that the event is about; null when it names none."),
  status: foreignWord.describe("The status that the event reports."),
  previousStatus: foreignWord.describe("The status of the message or run before the event."),
  transition: z.boolean().describe("Whether the event moved its message or run to a new status."),
  errorCode: foreignWord.describe("The error code that the event reports."),
  disposition: z.enum(dispositions).describe("The one outcome of routing the event."),
  parkedUntil: time.nullable().describe("When parking ends; null when the event is not parked."),
  duplicates: count.describe("How often the id was received again."),
  conflicts: count.describe("How many of the duplicates had other bytes."),
  fault: foreignText.describe("Why a quarantined body is not a valid envelope; else null."),
  releasedAs: seq.nullable().describe("For a released body: the seq of the event that it became."),
  releasedFrom: seq
    .nullable()
    .describe("For an event released from quarantine: the seq of its body."),
  size: count.describe("Bytes of the body."),
});
export type EventView = View<typeof eventSchema>;

const deliveryCountsSchema = component(
  "DeliveryCounts",
  "Number of deliveries in each state; a state without deliveries has no field.",
  {
    waiting: count.exactOptional().describe("Waiting deliveries."),
    held: count.exactOptional().describe("Held deliveries."),
    delivered: count.exactOptional().describe("Delivered deliveries."),
    dead: count.exactOptional().describe("Dead letters."),
  } satisfies Record<DeliveryState, unknown>,
);

export const listedEventSchema = component(
  "ListedEvent",
  "An event in a list, with the number of its deliveries.",
  {
    ...eventSchema.shape,
    deliveries: deliveryCountsSchema.describe("Its deliveries by state."),
    cause: text.describe(
      "Why the last attempt of a dead delivery failed, or else of a waiting one, such as `503`; null: none failed.",
    ),
  },
);
export type ListedEventView = View<typeof listedEventSchema>;
export type DeliveryCounts = Pick<ListedEventView, "deliveries" | "cause">;
export type RelayEvent = z.infer<typeof listedEventSchema>;

export const eventPageSchema = component("EventPage", "One page of events.", {
  data: z.array(listedEventSchema).describe("Newest first."),
  next: nextSeq,
});

const hydrationSchema = component(
  "Hydration",
  "What the relay found through the service's API for a truncated event.",
  {
    state: z.enum(hydrationStates).describe("Whether the relay still polls for it."),
    reason: z
      .enum(giveUpReasons)
      .nullable()
      .describe("Why the relay gave up; null when it did not."),
    polled: count.describe("Number of messages polled."),
    found: z
      .array(
        z.object({
          id: pii("event", z.string()).describe("Event id of the change."),
          seq: seq.describe("Seq of the change's event."),
          wamid: pii("wamid", text).describe("The message that changed."),
          status: foreignWord.describe("Its new status."),
        }),
      )
      .describe("The changes found, as the events that they became; the first hundred."),
    foundCount: count.describe("Number of changes found."),
    unknown: count.nullable().describe("Candidates that were not polled; null when not counted."),
    settledAt: time.nullable().describe("When the hydration ended; null while it goes on."),
  },
);
export type HydrationView = View<typeof hydrationSchema>;

export const deliverySchema = component("Delivery", "One event for one route.", {
  id: pii("delivery", z.string()).describe(
    "The delivery's id, which the destination receives as `webhook-id`.",
  ),
  event: seq.describe("Seq of its event."),
  eventId: pii("event", z.string()).describe("Id of its event."),
  route: z.string().describe("The route; `proxy:{source}` for a proxied exchange."),
  state: z.enum(deliveryStates).describe("Its state."),
  attempts: count.describe("Number of attempts so far."),
  replays: count.describe("How often it was replayed."),
  nextAt: time.nullable().describe("When the next attempt is due; null when none is."),
  settledAt: time.nullable().describe("When it was delivered or died; null before."),
  reason: foreignText.describe("Why it is dead; else null."),
  cause: text.describe(
    "Why its last failed attempt failed: an HTTP status such as `503`, or a word such as `timeout`; null: none failed.",
  ),
});
export type DeliveryView = View<typeof deliverySchema>;
export type RelayDelivery = z.infer<typeof deliverySchema>;

export const deliveryPageSchema = component("DeliveryPage", "One page of deliveries.", {
  data: z.array(deliverySchema).describe("Those of the newest events first."),
  next: nextText,
});

export const deliveryGroupsSchema = component(
  "DeliveryGroups",
  "Undelivered deliveries by route, state and cause.",
  {
    data: z
      .array(
        component(
          "DeliveryGroup",
          "The undelivered deliveries of a route with the same state and cause.",
          {
            route,
            state: z
              .enum(deliveryStates)
              .describe("Their state; `delivered` ones are not grouped."),
            cause: text.describe("Why the last failed attempt of each failed; null: none failed."),
            count: count.describe("Number of deliveries."),
            oldestAt: time.nullable().describe("When the oldest of their events was received."),
            newestAt: time.nullable().describe("When the newest of their events was received."),
          },
        ),
      )
      .describe("Largest first."),
  },
);
export type DeliveryGroup = z.infer<typeof deliveryGroupsSchema>["data"][number];
export type DeliveryGroupView = View<typeof deliveryGroupsSchema>["data"][number];

export const attemptSchema = component("Attempt", "One attempt of a delivery.", {
  number: z.int().describe("From 1."),
  at: time.describe("When it began."),
  tookMs: z.number().describe("Milliseconds to its end."),
  status: z.int().nullable().describe("HTTP status; null without an answer."),
  error: foreignText.describe("What failed; null when the destination answered."),
  response: pii("response", text).describe("The beginning of the response."),
});
export type Attempt = z.infer<typeof attemptSchema>;
export type AttemptView = View<typeof attemptSchema>;

const requestSchema = component("EventRequest", "The request that brought an event, and others.", {
  digest: z.string().describe("SHA-256 of the request's body, in hex."),
  bytes: count.describe("Size of the request's body."),
  events: count.describe(
    "How many events the request had, with those that were duplicates or quarantined.",
  ),
  place: z.int().describe("This event's place among them, from 1."),
});
export type EventRequest = z.infer<typeof requestSchema>;

export const routedEvent = {
  ...eventSchema.shape,
  request: requestSchema
    .nullable()
    .describe(
      "The request that brought it with other events, which `GET /v1/events?request={digest}` lists; null: it came alone.",
    ),
  hydration: hydrationSchema
    .nullable()
    .describe("Hydration of a truncated event; null for all others."),
  routes: z
    .array(
      component("Verdict", "What a route did with an event.", {
        route,
        verdict: z.string().describe("`deliver`, `park` or `skip`."),
        reason: foreign.exactOptional().describe("For `skip`: the criterion that did not match."),
      }),
    )
    .describe("What each route did with the event."),
};

export const nextStepSchema = component("NextStep", "The next step of a delivery.", {
  kind: z
    .enum([
      "attempt",
      "due",
      "exchange",
      "held",
      "breaker",
      "paused",
      "stopped",
      "no route",
      "dead",
      "done",
    ])
    .describe(
      `Why it waits, or that it does not.

| kind | meaning |
|---|---|
| \`attempt\` | the next attempt is made at \`at\` |
| \`due\` | due since \`at\`; it goes out within the destination's concurrency and rate |
| \`exchange\` | a proxied exchange is in flight |
| \`held\` | goes out after the delivery of event \`behind\`, and \`ahead\` more of its message |
| \`breaker\` | the destination failed repeatedly: attempts pause until \`at\`, and none is counted; \`at\` null: one delivery tries first, and the others follow if it succeeds |
| \`paused\` | the destination refuses calls before \`at\` (429 with \`Retry-After\`) |
| \`stopped\` | its destination is stopped; \`reason\` is why |
| \`no route\` | its route is not in the settings |
| \`dead\` | nothing, until you retry it |
| \`done\` | nothing |`,
    ),
  at: time.nullable().describe("When; null where the kind has no time."),
  behind: seq.nullable().describe("For `held`: seq of the event whose delivery goes out first."),
  ahead: count.describe("For `held`: number of other deliveries before it."),
  reason: foreignText.describe("For `stopped`: why."),
});
export type NextStep = View<typeof nextStepSchema>;

export const eventDetailSchema = component(
  "EventDetail",
  "An event with its bytes, the verdicts of the routes, and its deliveries.",
  {
    ...routedEvent,
    headers: pii("json", z.record(z.string(), z.string())).describe(
      "The stored request headers: those that the signature covers.",
    ),
    body: pii("bytes", z.string()).describe("The received bytes, in base64."),
    text: pii("body", text).describe("The body as text; null when it is not UTF-8."),
    deliveries: z
      .array(
        component("AttemptedDelivery", "A delivery with its attempts.", {
          ...deliverySchema.shape,
          attemptHistory: z.array(attemptSchema).describe("Its attempts, oldest first."),
          next: nextStepSchema.describe("What happens next."),
        }),
      )
      .describe("Its deliveries with their attempts."),
  },
);
export type RelayEventDetail = z.infer<typeof eventDetailSchema>;
/** With the bytes as received. */
export interface EventDetail
  extends Omit<View<typeof eventDetailSchema>, "deliveries" | "text" | "body"> {
  readonly body: Uint8Array;
}

export const retriedSchema = component("RetriedDelivery", "A delivery after a retry.", {
  id: pii("delivery", z.string()).describe("The delivery."),
  route: z.string().describe("Its route."),
  state: z
    .string()
    .describe("`waiting`: goes out now. `held`: waits for an earlier delivery of its message."),
  previousState: z.string().describe("Its state before the retry."),
  stopped: foreignText.describe("Why the destination is stopped; null when it is not."),
  pausedUntil: time
    .nullable()
    .describe(
      "Until when the destination is paused (429 with `Retry-After`); null when it is not.",
    ),
});
export type Retried = z.infer<typeof retriedSchema>;
