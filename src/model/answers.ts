import { z } from "zod";
import { type ErrorCode, errorCodes } from "./errors.ts";
import { giveUpReasons, hydrationStates } from "./hydration.ts";
import { type DeliveryState, deliveryStates, dispositions } from "./states.ts";
import { component, foreign, pii, time, type View } from "./view.ts";

/*
 * The answers of the control API (docs/reference/endpoints.md). Each schema is the only declaration of its JSON: the ports, the HTTP
 * handlers, the published client, the commands and `/v1/openapi.json` derive their types from it. `id` is the schema's name in
 * `/v1/openapi.json`; a test demands a description of every field.
 */

const text = z.string().nullable();
const foreignText = pii("text", text);
/** A word of the service, such as a status. */
const foreignWord = pii("word", text);
export const count = z.int().min(0);
const seq = z.int().min(0);
const account = z.string().describe("The account.");
const route = z.string().describe("The route.");
const source = z.string().describe("The source.");

export function counts<const Word extends string>(words: readonly Word[], about: (word: Word) => string): Record<Word, typeof count> {
  return Object.fromEntries(words.map((word) => [word, count.describe(about(word))])) as Record<Word, typeof count>;
}

export const eventSchema = component("Event", "A received event.", {
  seq: seq.describe("The relay's own number of the event, which grows."),
  id: pii("event", text).describe("The envelope's id; null when quarantined."),
  event: pii("kind", text).describe("The event kind, such as `message.status`; null when quarantined."),
  account: z.string().describe("The account of its source."),
  source: z.string().describe("The source that received it."),
  origin: z.string().describe("Where it comes from: `webhook`, `hydrate`, `reconcile` and others."),
  receivedAt: time.describe("When the relay received it."),
  createdAt: time.nullable().describe("When the service created it; null when quarantined."),
  secret: text.describe("Fingerprint of the secret that verified it; null when the relay made the event."),
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
  releasedFrom: seq.nullable().describe("For an event released from quarantine: the seq of its body."),
  size: count.describe("Bytes of the body."),
});
export type EventView = View<typeof eventSchema>;

const deliveryCountsSchema = component("DeliveryCounts", "Number of deliveries in each state; a state without deliveries has no field.", {
  waiting: count.exactOptional().describe("Waiting deliveries."),
  held: count.exactOptional().describe("Held deliveries."),
  delivered: count.exactOptional().describe("Delivered deliveries."),
  dead: count.exactOptional().describe("Dead letters."),
} satisfies Record<DeliveryState, unknown>);

export const listedEventSchema = component("ListedEvent", "An event in a list, with the number of its deliveries.", {
  ...eventSchema.shape,
  deliveries: deliveryCountsSchema.describe("Its deliveries by state."),
  cause: text.describe("Why the last attempt of a dead delivery failed, or else of a waiting one, such as `503`; null: none failed."),
});
export type ListedEventView = View<typeof listedEventSchema>;
export type DeliveryCounts = Pick<ListedEventView, "deliveries" | "cause">;
export type RelayEvent = z.infer<typeof listedEventSchema>;

const nextSeq = seq.nullable().describe("`before` of the next page; null at the end.");
const nextText = text.describe("`before` of the next page; null at the end.");

export const eventPageSchema = component("EventPage", "One page of events.", {
  data: z.array(listedEventSchema).describe("Newest first."),
  next: nextSeq,
});

const hydrationSchema = component("Hydration", "What the relay found through the service's API for a truncated event.", {
  state: z.enum(hydrationStates).describe("Whether the relay still polls for it."),
  reason: z.enum(giveUpReasons).nullable().describe("Why the relay gave up; null when it did not."),
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
});
export type HydrationView = View<typeof hydrationSchema>;

export const deliverySchema = component("Delivery", "One event for one route.", {
  id: pii("delivery", z.string()).describe("The delivery's id, which the destination receives as `webhook-id`."),
  event: seq.describe("Seq of its event."),
  eventId: pii("event", z.string()).describe("Id of its event."),
  route: z.string().describe("The route; `proxy:{source}` for a proxied exchange."),
  state: z.enum(deliveryStates).describe("Its state."),
  attempts: count.describe("Number of attempts so far."),
  replays: count.describe("How often it was replayed."),
  nextAt: time.nullable().describe("When the next attempt is due; null when none is."),
  settledAt: time.nullable().describe("When it was delivered or died; null before."),
  reason: foreignText.describe("Why it is dead; else null."),
  cause: text.describe("Why its last failed attempt failed: an HTTP status such as `503`, or a word such as `timeout`; null: none failed."),
});
export type DeliveryView = View<typeof deliverySchema>;
export type RelayDelivery = z.infer<typeof deliverySchema>;

export const deliveryPageSchema = component("DeliveryPage", "One page of deliveries.", {
  data: z.array(deliverySchema).describe("Those of the newest events first."),
  next: nextText,
});

export const deliveryGroupsSchema = component("DeliveryGroups", "Undelivered deliveries by route, state and cause.", {
  data: z
    .array(
      component("DeliveryGroup", "The undelivered deliveries of a route with the same state and cause.", {
        route,
        state: z.enum(deliveryStates).describe("Their state; `delivered` ones are not grouped."),
        cause: text.describe("Why the last failed attempt of each failed; null: none failed."),
        count: count.describe("Number of deliveries."),
        oldestAt: time.nullable().describe("When the oldest of their events was received."),
        newestAt: time.nullable().describe("When the newest of their events was received."),
      }),
    )
    .describe("Largest first."),
});
export type DeliveryGroup = z.infer<typeof deliveryGroupsSchema>["data"][number];
export type DeliveryGroupView = View<typeof deliveryGroupsSchema>["data"][number];

const attemptSchema = component("Attempt", "One attempt of a delivery.", {
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
  events: count.describe("How many events the request had, with those that were duplicates or quarantined."),
  place: z.int().describe("This event's place among them, from 1."),
});
export type EventRequest = z.infer<typeof requestSchema>;

const routedEvent = {
  ...eventSchema.shape,
  request: requestSchema
    .nullable()
    .describe("The request that brought it with other events, which `GET /v1/events?request={digest}` lists; null: it came alone."),
  hydration: hydrationSchema.nullable().describe("Hydration of a truncated event; null for all others."),
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

const nextStepSchema = component("NextStep", "The next step of a delivery.", {
  kind: z.enum(["attempt", "due", "exchange", "held", "breaker", "paused", "stopped", "no route", "dead", "done"]).describe(
    `Why it waits, or that it does not.

| kind | meaning |
|---|---|
| \`attempt\` | the next attempt is made at \`at\` |
| \`due\` | due since \`at\`; it goes out within the destination's concurrency and rate |
| \`exchange\` | a proxied exchange is in flight |
| \`held\` | goes out after the delivery of event \`behind\`, and \`ahead\` more of its message |
| \`breaker\` | the destination failed repeatedly: attempts pause until \`at\`, and none is counted |
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

export const eventDetailSchema = component("EventDetail", "An event with its bytes, the verdicts of the routes, and its deliveries.", {
  ...routedEvent,
  headers: z.record(foreign, foreign).describe("The stored request headers: those that the signature covers."),
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
});
export type RelayEventDetail = z.infer<typeof eventDetailSchema>;
/** With the bytes as received. */
export interface EventDetail extends Omit<View<typeof eventDetailSchema>, "deliveries" | "text" | "body"> {
  readonly body: Buffer;
}

export const retriedSchema = component("RetriedDelivery", "A delivery after a retry.", {
  id: pii("delivery", z.string()).describe("The delivery."),
  route: z.string().describe("Its route."),
  state: z.string().describe("`waiting`: goes out now. `held`: waits for an earlier delivery of its message."),
  previousState: z.string().describe("Its state before the retry."),
  stopped: foreignText.describe("Why the destination is stopped; null when it is not."),
  pausedUntil: time.nullable().describe("Until when the destination is paused (429 with `Retry-After`); null when it is not."),
});
export type Retried = z.infer<typeof retriedSchema>;

const trackedFields = {
  account: z.string().describe("Its account."),
  reference: foreignText.describe("Your own reference, from the registration."),
  metadata: pii("metadata", z.record(z.string(), z.unknown())).nullable().describe("Your metadata, from the registration."),
  status: foreignWord.describe("The current status; null before the first event."),
  times: z.record(pii("word", z.string()), time).describe("When each status was first seen."),
  updatedAt: time.describe("When it changed last."),
};

export const messageSchema = component("Message", "A tracked message.", {
  ...trackedFields,
  wamid: pii("wamid", z.string()).describe("Its wamid."),
  id: pii("message", text).describe("The service's message id."),
  conversationId: pii("message", text).describe("The service's conversation id."),
  errorCode: foreignWord.describe("Why it failed; null when it did not."),
  sentAt: time.nullable().describe("When it was sent, according to its registration."),
  registeredAt: time.nullable().describe("When it was registered; null when it was only seen."),
});
export type MessageView = View<typeof messageSchema>;
export type RelayMessage = z.infer<typeof messageSchema>;

export const messagePageSchema = component("MessagePage", "One page of messages.", {
  data: z.array(messageSchema).describe("Newest first."),
  next: nextSeq,
});

const runSchema = component("Run", "A tracked automation run.", {
  ...trackedFields,
  runId: pii("run", z.string()).describe("The service's run id."),
  error: foreignWord.describe("Why it failed; null when it did not."),
  registeredAt: time.nullable().describe("When it was started through the relay; null when it was only seen."),
});
export type RunView = View<typeof runSchema>;
export type RelayRun = z.infer<typeof runSchema>;

export const runPageSchema = component("RunPage", "One page of runs.", {
  data: z.array(runSchema).describe("Newest first."),
  next: nextSeq,
});

const eventStorySchema = component("EventStory", "An event with everything that happened to it.", {
  ...routedEvent,
  deliveries: z
    .array(
      component("DeliveryStory", "A delivery with its attempts and its next step.", {
        ...deliverySchema.shape,
        attemptHistory: z.array(attemptSchema).describe("The latest attempts, oldest first."),
        earlierAttempts: count.describe("Number of attempts before those."),
        next: nextStepSchema.describe("What happens next."),
      }),
    )
    .describe("Its deliveries."),
});

const storySchema = component("Story", "One message or run with its events, or one event.", {
  message: messageSchema.nullable().describe("The message; null for runs and single events."),
  run: runSchema.nullable().describe("The run; null for messages and single events."),
  events: z.array(eventStorySchema).describe("Oldest first."),
  next: seq.nullable().describe("`after` of the next page; null at the end."),
});
export type RelayStory = z.infer<typeof storySchema>;
export type EventStory = EventDetail & Pick<View<typeof eventStorySchema>, "deliveries">;
/** With the bytes of its events. */
export type Story = Omit<View<typeof storySchema>, "events"> & { readonly events: readonly EventStory[] };

export const explainedSchema = component("Stories", "The stories of everything that has the name.", {
  data: z.array(storySchema).describe("Several stories when accounts, or messages with one reference, share the name."),
});
export type RelayExplained = z.infer<typeof explainedSchema>;

export const statsSchema = component("Stats", "The sums of the stored events, deliveries and attempts.", {
  dispositions: z.object(counts(dispositions, (word) => `Events with the disposition \`${word}\`.`)).describe("Events by disposition."),
  duplicates: count.describe("How often a known event id was received again."),
  deliveries: z.object(counts(deliveryStates, (word) => `Deliveries in the state \`${word}\`.`)).describe("Deliveries by state."),
  attempts: z.object({ made: count.describe("All attempts."), failed: count.describe("Failed attempts.") }).describe("Attempts."),
});
export type RelayStats = z.infer<typeof statsSchema>;

const secretUseSchema = component("SecretUse", "How often one secret of a source verified webhooks.", {
  source,
  secret: z.string().describe("The secret's fingerprint."),
  place: text.describe("Its place in the current settings, such as `sources.main.signature.secrets[0]`; null when it was removed."),
  events: count.describe("Stored events that it verified, including quarantined ones, excluding duplicates."),
  duplicates: count.describe("Duplicates that it verified."),
  firstAt: time.nullable().describe("When it first verified a webhook; null when it never did."),
  lastAt: time.nullable().describe("When it last verified a webhook; null when it never did."),
});
export type SecretUse = z.infer<typeof secretUseSchema>;
export type SecretUseView = View<typeof secretUseSchema>;

export const secretUsesSchema = component("SecretUses", "The usage of each secret.", {
  data: z.array(secretUseSchema).describe("Secrets of the settings first, in their order there; then removed ones."),
});

const sourceSchema = component("Source", "A source of the settings, and what arrived there.", {
  source,
  kind: z.enum(["events", "automation-request"]).describe("Its kind."),
  format: z.enum(["standard", "meta"]).nullable().describe("Its format; null for automations' requests."),
  accounts: z.array(z.string()).describe("The accounts that its events may have."),
  handshake: z
    .object({ doneAt: time.nullable().describe("When one was last answered; null: none was.") })
    .nullable()
    .describe("Meta's handshake with this source; null: it has no `verifyTokens`."),
  numbers: z
    .array(
      z.object({
        number: z.string().describe("`phone_number_id`, or the id of the business account."),
        account: text.describe("Its account at that time; null when none had it."),
        lastAt: time.describe("When its last event was received, to the minute."),
      }),
    )
    .describe("Of Meta's format: the numbers of the last 90 days."),
});
export type SourceView = View<typeof sourceSchema>;

export const sourceCheckSchema = component("SourceCheck", "What Meta's Graph API says of a source.", {
  source,
  problems: z.array(z.string()).describe("Why webhooks do not arrive, or go elsewhere; none: nothing is wrong."),
  facts: z.array(z.string()).describe("What is right."),
});
export type SourceCheckView = View<typeof sourceCheckSchema>;

export const sourcesSchema = component("Sources", "The sources of the settings.", {
  data: z.array(sourceSchema).describe("The sources, in the order of the settings."),
});

const faultSchema = component("SettingsFault", "A fault in the settings file.", {
  path: z.string().describe("The setting."),
  message: z.string().describe("What is wrong."),
  source: z.string().describe("File, line and column, and the variable that the value comes from."),
});

export const reloadSchema = component("Reload", "The result of the last reload of the settings; before the first one, the start.", {
  result: z.enum(["applied", "refused"]).describe("`refused`: the settings have faults, and the previous ones stay in effect."),
  trigger: z.enum(["start", "signal", "api"]).describe("What caused it: the start, SIGHUP, or `POST /v1/reload`."),
  at: time.describe("When it was done."),
  loadedAt: time.describe("When the settings in effect were read."),
  changed: z
    .array(z.string())
    .describe("Paths of the settings that changed, such as `sources.main.signature.secrets` or `routes[crm].to.url`."),
  needRestart: z.array(z.string()).describe("Paths of changed settings that have no effect before a restart."),
  overridden: z
    .array(z.string())
    .describe("Variables of the env file that have another value in the process environment, which takes precedence."),
  dropped: z
    .array(
      z.object({
        source,
        secret: z.string().describe("Fingerprint of the secret."),
        lastAt: time.describe("When it last verified an event."),
      }),
    )
    .describe("Secrets that this reload removed although they verified an event within the last hour. Webhooks signed with them get 401."),
  faults: z.array(faultSchema).describe("Why it was refused."),
});
export type Reload = z.infer<typeof reloadSchema>;
export type ReloadView = View<typeof reloadSchema>;

export const settingsViewSchema = component("Settings", "The settings in effect.", {
  loadedAt: time.describe("When the settings in effect were read."),
  file: text.describe("The settings file; null when the process was started without one."),
  settings: z
    .record(z.string(), z.unknown())
    .describe("The settings in effect, by section, with defaults filled in. Secrets are shown as `[secret <fingerprint>]`."),
});
export type SettingsView = View<typeof settingsViewSchema>;
export type RelaySettings = z.infer<typeof settingsViewSchema>;

const matching = count.describe("Number of deliveries.");

export const replayCountSchema = component("ReplayCount", "What a replay would send.", {
  matching: count.describe("Deliveries that would be sent again; for quarantined events, those that are valid now."),
  routes: z
    .array(
      z.object({
        route,
        matching,
        stopped: foreignText.describe("Why its destination is stopped; null when it is not."),
      }),
    )
    .describe("The same by route."),
  notSent: z
    .array(z.object({ route, matching }))
    .describe("Deliveries that match but cannot be sent: their route is not in the settings, or a proxied exchange has ended."),
  invalid: z
    .array(z.object({ reason: foreign.describe("Why they are not valid."), events: count.describe("Number of events.") }))
    .exactOptional()
    .describe("For quarantined events: those that are not valid."),
});
export type ReplayCount = z.infer<typeof replayCountSchema>;
export type ReplayCountView = View<typeof replayCountSchema>;

export const replayedSchema = component("Replayed", "One step of a replay.", {
  replayed: count.describe("Deliveries sent again; for quarantined events, the number released."),
  next: text.describe("`cursor` of the next request; null when nothing is left."),
  duplicates: count.exactOptional().describe("For quarantined events: those whose event id was known."),
  invalid: count.exactOptional().describe("For quarantined events: those that are not valid and stay quarantined."),
});
export type ReplayStep = View<typeof replayedSchema>;

export const resumedSchema = component("ResumedRoute", "A route after `resume`.", {
  route,
  resumed: z.boolean().describe("False when its destination was neither stopped nor paused, and its breaker not open."),
});

export const handshakeSchema = component("Handshake", "Meta's handshake with a route's destination.", {
  route,
  result: z
    .enum(["done", "remembered", "failed"])
    .describe("`remembered`: an earlier handshake with this URL and token succeeded, and none was performed now."),
  doneAt: time.nullable().describe("When the last one succeeded; null: none has."),
  problem: foreign.nullable().describe("What is wrong with the destination's answer; null unless `failed`."),
});
export type HandshakeView = View<typeof handshakeSchema>;

export const accountResumedSchema = component("ResumedAccount", "An account after `resume`.", {
  account,
  resumed: z.boolean().describe("False when it had no stops."),
  ended: z.array(z.string()).describe("Names of the stops that ended."),
});

const reconcileStopSchema = component("ReconcileStop", "Why not every due message was polled.", {
  reason: z.enum(["unauthenticated", "quota", "blocked", "unreachable", "refused", "unreadable", "not-found"]).describe(
    `What stopped the polls.

| reason | meaning |
|---|---|
| \`unauthenticated\` | the service refuses the key |
| \`quota\` | the monthly quota is used up |
| \`blocked\` | the service blocks this address for a minute |
| \`unreachable\` | five calls in a row failed |
| \`not-found\`, \`refused\`, \`unreadable\` | the service answers every poll so |`,
  ),
  until: time.nullable().describe("When polls resume; null when unknown."),
  detail: foreign.exactOptional().describe("The last answer, for `refused`, `unreadable` and `not-found`."),
});
export type ReconcileStop = z.infer<typeof reconcileStopSchema>;

const accountStanding = {
  missing: count.describe("Messages that the service does not know."),
  postponed: count.describe("Due messages that were postponed to save the month's quota."),
  unpollable: count.describe("Messages known by wamid only, which cannot be polled."),
  stopped: reconcileStopSchema.nullable().describe("Why not every due message was polled; null when nothing stopped the polls."),
  lastsUntil: time.nullable().describe("When the month's quota would be used up if every due message were polled; null when it lasts."),
};

const passFields = {
  ...accountStanding,
  polled: count.describe("Messages polled."),
  changed: count.describe("Messages whose status changed."),
  unchanged: count.describe("Messages whose status did not change."),
  failed: count.describe("Polls without a usable answer."),
};
const accountReconciledSchema = component("AccountReconciled", "The result of a pass over one account.", { account, ...passFields });
export type AccountReconciled = z.infer<typeof accountReconciledSchema>;

const accountPlanSchema = component("AccountPlan", "What a pass over one account would do.", {
  account,
  due: count.describe("Messages that are due."),
  wouldPoll: count.describe("Most calls that a pass would make."),
  ...accountStanding,
});
export type AccountPlan = z.infer<typeof accountPlanSchema>;

const lastPassSchema = component("LastPass", "The last reconciliation pass over an account.", {
  ...passFields,
  endedAt: time.describe("When it ended."),
  unreachableSince: time.nullable().describe("Since when the service answers no poll; null when it does."),
});

const stopSchema = component("AccountStop", "Calls of an account that the relay does not make at present.", {
  reason: z
    .enum(["unauthenticated", "quota", "quota-messages", "quota-runs", "quota-contacts", "quota-reads", "blocked"])
    .describe("What stopped calls: a refused key, a used-up quota with the calls it covers, or a blocked address."),
  resource: foreignText.describe("The service's name of the quota; null when it gave none."),
  until: time.describe("When the next call tries again."),
});

export const accountsSchema = component("Accounts", "The accounts of the settings.", {
  data: z
    .array(
      component("Account", "An account at the messaging service, and what the relay does with it.", {
        account,
        isCallable: z.boolean().describe("Whether the settings have `baseUrl` and `apiKey`. Only then the relay sends and polls."),
        plan: z.enum(["escala", "enterprise"]).describe("The plan in the settings."),
        stops: z.array(stopSchema).describe("Stopped calls; empty when there are none."),
        budget: component("AccountBudget", "What an account may call, and has called, in a month.", {
          from: time.describe("When the month began."),
          until: time.describe("When the quota renews."),
          quota: count.nullable().describe("The relay's share of the month's calls; null when the plan has no limit."),
          polls: count.describe("Polls made this month."),
          others: count.describe("Other calls made this month: sends, runs, reads."),
          left: count.nullable().describe("Calls left this month; null without a limit."),
          pollsNow: count.nullable().describe("Polls that the budget allows at this time; null without a limit."),
        }).describe("The month's calls."),
        lastPass: lastPassSchema.nullable().describe("The last reconciliation pass; null when none has ended yet."),
        nextPassAt: time.nullable().describe("When the schedule starts the next pass; null when `reconcile.schedule` is `off`."),
      }),
    )
    .describe("The accounts of the settings, in their order."),
});
export type AccountsView = View<typeof accountsSchema>;
export type RelayAccount = z.infer<typeof accountsSchema>["data"][number];

const dueBy = time.describe("The pass covers messages due by this time.");

export const reconciledSchema = component("Reconciled", "One step of a reconciliation pass.", {
  dueBy,
  more: z.boolean().describe("True: repeat the request with this `dueBy` to continue the pass."),
  accounts: z.array(accountReconciledSchema).describe("The results by account."),
});
export const reconcilePlanSchema = component("ReconcilePlan", "What a reconciliation pass would do.", {
  dueBy,
  accounts: z.array(accountPlanSchema).describe("The plan by account."),
});

export const trackedSchema = component("Tracked", "The result of a registration.", {
  created: count.describe("Messages registered now."),
  known: count.describe("Messages registered before."),
});

export const trackedLineSchema = component("TrackedLine", "The result of one line of NDJSON.", {
  line: z.int().describe("The message's number in the input, from 1."),
  wamid: pii("wamid", text).describe("Its wamid; null when the line has none."),
  result: z.enum(["created", "known", "conflict", "invalid"]).describe("What became of it."),
  error: foreign.exactOptional().describe("For `conflict` and `invalid`: what is wrong."),
  details: pii("json", z.unknown())
    .exactOptional()
    .describe("For `conflict`: `{stored, given}` by field. For `invalid`: the list of faults."),
});
export type TrackedLine = z.infer<typeof trackedLineSchema>;

const trackSumsSchema = z.object({
  lines: count.describe("Lines read."),
  created: count.describe("Messages registered now."),
  known: count.describe("Messages registered before."),
  conflict: count.describe("Messages that contradict what is stored."),
  invalid: count.describe("Lines that are not valid registrations."),
});
export type TrackSums = z.infer<typeof trackSumsSchema>;

export const trackEndSchema = component("TrackEnd", "The last line of NDJSON: the sums.", {
  ...trackSumsSchema.shape,
  stoppedAt: z.int().exactOptional().describe("The first line that was not registered. Only when the relay stopped early."),
  error: foreign.exactOptional().describe("Why the relay stopped early, for people."),
  code: z
    .enum(Object.keys(errorCodes) as ErrorCode[])
    .exactOptional()
    .describe("The same for programs."),
});
export type TrackEnd = z.infer<typeof trackEndSchema>;

const stored = z
  .boolean()
  .describe("False: done at the service, but the relay's store is unavailable. Keep the ids, and do not repeat the request.");

export const sentMessageSchema = component("SentMessage", "A message that was sent.", {
  account: z.string().describe("The account that sent it."),
  idempotencyKey: foreign.describe("The key of the request, or the one that the relay made."),
  id: pii("message", text).describe("The service's message id; null when its answer has none."),
  wamid: pii("wamid", z.string()).describe("Its wamid."),
  status: pii("word", z.string()).describe("Its status in the service's answer."),
  conversationId: pii("message", text).describe("The service's conversation id."),
  reference: foreignText.describe("The reference of the request."),
  stored,
});

export const startedRunSchema = component("StartedRun", "A run of an automation.", {
  account: z.string().describe("The account that started it."),
  reference: foreign.describe("The reference of the request."),
  runId: pii("run", z.string()).describe("The service's run id."),
  automation: foreign.describe("The automation."),
  created: z.boolean().describe("False: the run of this reference was started before."),
  stored,
});
export type StartedRun = z.infer<typeof startedRunSchema>;

export const instanceSchema = component("Instance", "The process that answered.", {
  instance: z.string().describe("Identifies this process; a restart gives another one."),
  version: z.string().describe("Its version."),
  pid: z.int().describe("Its process id."),
  host: z.string().describe("The name of its host."),
  role: z.enum(["receive", "both"]).describe("Its role."),
  startedAt: time.describe("When it started."),
  store: z
    .object({
      driver: z.enum(["sqlite", "postgres"]).describe("The engine."),
      place: z.string().describe("The file, or the address of the server without user and password, with the schema or prefix."),
    })
    .describe("Its store."),
});
export type InstanceView = View<typeof instanceSchema>;
export type RelayInstance = z.infer<typeof instanceSchema>;

const listenerSchema = component("Listener", "A connected listener, or the cursor of one that is not connected.", {
  name: text.describe("The name of its cursor, masked when it looks like a phone number; null when it has none."),
  connectedAt: time.nullable().describe("When it connected to this process; null: it is not connected here."),
  movedAt: time.nullable().describe("When its stored cursor last moved; null when it has none."),
  position: seq.describe("Everything up to this seq was sent, or is done according to the cursor."),
  lag: count.describe("Number of seqs after its position."),
});
export type ListenerView = View<typeof listenerSchema>;
export type RelayListener = z.infer<typeof listenerSchema>;

export const listenersSchema = component("Listeners", "The listeners of this process, and the stored cursors.", {
  data: z.array(listenerSchema).describe("Connected listeners first, then the other cursors, the latest moved first."),
});

export const cursorSchema = component("Cursor", "The cursor of a listener, which never goes back.", {
  name: foreign.describe("The listener's name."),
  seq: seq.describe("Everything up to this seq is done."),
});

export const sessionSchema = component("Session", "A session of the console.", {
  name: z.string().describe("The token's name."),
  scopes: z.array(z.string()).describe("The token's scopes."),
  accounts: z.array(z.string()).nullable().describe("The accounts that the token is limited to; null: it is not limited."),
  expiresAt: time.describe("When the session ends."),
});
export type RelaySession = z.infer<typeof sessionSchema>;

export const sessionEndedSchema = component("EndedSession", "A session after its end.", {
  ended: z.boolean().describe("False when there was no session."),
});

export const sessionCodeSchema = component("SessionCode", "A code that starts one session.", {
  code: z.string().describe("The code."),
  expiresAt: time.describe("Until when it can be used."),
});
export type SessionCode = z.infer<typeof sessionCodeSchema>;
