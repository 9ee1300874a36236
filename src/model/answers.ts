import { z } from "zod";
import { type ErrorCode, errorCodes } from "./errors.ts";
import { giveUpReasons, hydrationStates } from "./hydration.ts";
import { type DeliveryState, deliveryStates, dispositions } from "./states.ts";
import { pii, time, type View } from "./view.ts";

/*
 * The answers of the control API (docs/reference/endpoints.md). Each schema is the only declaration of its JSON: the ports, the HTTP
 * handlers, the published client, the commands and `/v1/openapi.json` derive their types from it. `id` is the schema's name in
 * `/v1/openapi.json`; a test demands a description of every field.
 */

const text = z.string().nullable();
/** Text that may hold a wamid or phone number, because the service, a destination or an application wrote it. */
const foreignText = pii("text", text);
/** A word of the service, such as a status. */
const foreignWord = pii("word", text);
export const count = z.int().min(0);
const seq = z.int().min(0);

/** A count for each word, described by `about`. */
export function counts<const Word extends string>(words: readonly Word[], about: (word: Word) => string): Record<Word, typeof count> {
  return Object.fromEntries(words.map((word) => [word, count.describe(about(word))])) as Record<Word, typeof count>;
}

export const eventSchema = z
  .object({
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
  })
  .meta({ id: "Event", description: "A received event." });
export type EventView = View<typeof eventSchema>;

const deliveryCountsSchema = z
  .object({
    waiting: count.exactOptional().describe("Waiting deliveries."),
    held: count.exactOptional().describe("Held deliveries."),
    delivered: count.exactOptional().describe("Delivered deliveries."),
    dead: count.exactOptional().describe("Dead letters."),
  } satisfies Record<DeliveryState, unknown>)
  .meta({ id: "DeliveryCounts", description: "Number of deliveries in each state; a state without deliveries has no field." });

export const listedEventSchema = eventSchema
  .extend({
    deliveries: deliveryCountsSchema.describe("Its deliveries by state; a state without deliveries has no field."),
    cause: text.describe("Why the last attempt of a dead delivery failed, or else of a waiting one, such as `503`; null: none failed."),
  })
  .meta({ id: "ListedEvent", description: "An event in a list, with the number of its deliveries." });
export type ListedEventView = View<typeof listedEventSchema>;
/** What a list shows of an event's deliveries. */
export type DeliveryCounts = Pick<ListedEventView, "deliveries" | "cause">;
export type RelayEvent = z.infer<typeof listedEventSchema>;

/** `next` of a page. */
const nextSeq = seq.nullable().describe("`before` of the next page; null at the end.");
const nextText = text.describe("`before` of the next page; null at the end.");

export const eventPageSchema = z
  .object({ data: z.array(listedEventSchema).describe("Newest first."), next: nextSeq })
  .meta({ id: "EventPage", description: "One page of events." });

const hydrationSchema = z
  .object({
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
    unknown: count.nullable().describe("Tracked messages that are candidates and were not polled; null when not counted."),
    settledAt: time.nullable().describe("When the hydration ended; null while it goes on."),
  })
  .meta({ id: "Hydration", description: "What the relay found through the service's API for a truncated event." });
export type HydrationView = View<typeof hydrationSchema>;

export const deliverySchema = z
  .object({
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
    cause: text.describe(
      "Why its last failed attempt failed: an HTTP status such as `503`, or a word such as `timeout`; null: none failed.",
    ),
  })
  .meta({ id: "Delivery", description: "One event for one route." });
export type DeliveryView = View<typeof deliverySchema>;
export type RelayDelivery = z.infer<typeof deliverySchema>;

export const deliveryPageSchema = z
  .object({ data: z.array(deliverySchema).describe("Those of the newest events first."), next: nextText })
  .meta({ id: "DeliveryPage", description: "One page of deliveries." });

export const deliveryGroupsSchema = z
  .object({
    data: z
      .array(
        z
          .object({
            route: z.string().describe("The route."),
            state: z.enum(deliveryStates).describe("Their state; `delivered` ones are not grouped."),
            cause: text.describe("Why the last failed attempt of each failed; null: none failed."),
            count: count.describe("Number of deliveries."),
            oldestAt: time.nullable().describe("When the oldest of their events was received."),
            newestAt: time.nullable().describe("When the newest of their events was received."),
          })
          .meta({ id: "DeliveryGroup", description: "The undelivered deliveries of a route with the same state and cause." }),
      )
      .describe("Largest first."),
  })
  .meta({ id: "DeliveryGroups", description: "Undelivered deliveries by route, state and cause." });
export type DeliveryGroup = z.infer<typeof deliveryGroupsSchema>["data"][number];
export type DeliveryGroupView = View<typeof deliveryGroupsSchema>["data"][number];

const attemptSchema = z
  .object({
    number: z.int().describe("From 1."),
    at: time.describe("When it began."),
    tookMs: z.number().describe("Milliseconds to its end."),
    status: z.int().nullable().describe("HTTP status; null without an answer."),
    error: foreignText.describe("What failed; null when the destination answered."),
    response: pii("response", text).describe("The beginning of the response."),
  })
  .meta({ id: "Attempt", description: "One attempt of a delivery." });
export type Attempt = z.infer<typeof attemptSchema>;
export type AttemptView = View<typeof attemptSchema>;

const attemptHistory = z.array(attemptSchema);

const verdictsSchema = z
  .array(
    z
      .object({
        route: z.string().describe("The route."),
        verdict: z.string().describe("`deliver`, `park` or `skip`."),
        reason: pii("text", z.string()).exactOptional().describe("For `skip`: the criterion that did not match."),
      })
      .meta({ id: "Verdict", description: "What a route did with an event." }),
  )
  .describe("What each route did with the event.");

const requestSchema = z
  .object({
    digest: z.string().describe("SHA-256 of the request's body, in hex."),
    bytes: count.describe("Size of the request's body."),
    events: count.describe("How many events the request had, with those that were duplicates or quarantined."),
    place: z.int().describe("This event's place among them, from 1."),
  })
  .meta({ id: "EventRequest", description: "The request that brought an event, and others." });
export type EventRequest = z.infer<typeof requestSchema>;

const ofRequest = requestSchema
  .nullable()
  .describe("The request that brought it with other events, which `GET /v1/events?request={digest}` lists; null: it came alone.");

export const eventDetailSchema = eventSchema
  .extend({
    request: ofRequest,
    headers: z
      .record(pii("text", z.string()), pii("text", z.string()))
      .describe("The stored request headers: those that the signature covers."),
    body: pii("bytes", z.string()).describe("The received bytes, in base64."),
    text: pii("body", text).describe("The body as text; null when it is not UTF-8."),
    hydration: hydrationSchema.nullable().describe("Hydration of a truncated event; null for all others."),
    routes: verdictsSchema,
    deliveries: z
      .array(
        deliverySchema
          .extend({ attemptHistory: attemptHistory.describe("Its attempts, oldest first.") })
          .meta({ id: "AttemptedDelivery", description: "A delivery with its attempts." }),
      )
      .describe("Its deliveries with their attempts."),
  })
  .meta({ id: "EventDetail", description: "An event with its bytes, the verdicts of the routes, and its deliveries." });
export type RelayEventDetail = z.infer<typeof eventDetailSchema>;
/** With the bytes as received. */
export interface EventDetail extends Omit<View<typeof eventDetailSchema>, "deliveries" | "text" | "body"> {
  readonly body: Buffer;
}

export const retriedSchema = z
  .object({
    id: pii("delivery", z.string()).describe("The delivery."),
    route: z.string().describe("Its route."),
    state: z.string().describe("`waiting`: goes out now. `held`: waits for an earlier delivery of its message."),
    previousState: z.string().describe("Its state before the retry."),
    stopped: foreignText.describe("Why the destination is stopped; null when it is not."),
    pausedUntil: time.nullable().describe("Until when the destination is paused (429 with `Retry-After`); null when it is not."),
  })
  .meta({ id: "RetriedDelivery", description: "A delivery after a retry." });
export type Retried = z.infer<typeof retriedSchema>;

const trackedFields = {
  reference: foreignText.describe("Your own reference, from the registration."),
  metadata: pii("metadata", z.record(z.string(), z.unknown())).nullable().describe("Your metadata, from the registration."),
  status: foreignWord.describe("The current status; null before the first event."),
};
const times = z.record(pii("word", z.string()), time).describe("When each status was first seen.");
const updatedAt = time.describe("When it changed last.");

export const messageSchema = z
  .object({
    account: z.string().describe("Its account."),
    wamid: pii("wamid", z.string()).describe("Its wamid."),
    id: pii("message", text).describe("The service's message id."),
    conversationId: pii("message", text).describe("The service's conversation id."),
    ...trackedFields,
    errorCode: foreignWord.describe("Why it failed; null when it did not."),
    times,
    sentAt: time.nullable().describe("When it was sent, according to its registration."),
    registeredAt: time.nullable().describe("When it was registered; null when it was only seen."),
    updatedAt,
  })
  .meta({ id: "Message", description: "A tracked message." });
export type MessageView = View<typeof messageSchema>;
export type RelayMessage = z.infer<typeof messageSchema>;

export const messagePageSchema = z
  .object({ data: z.array(messageSchema).describe("Newest first."), next: nextSeq })
  .meta({ id: "MessagePage", description: "One page of messages." });

export const runSchema = z
  .object({
    account: z.string().describe("Its account."),
    runId: pii("run", z.string()).describe("The service's run id."),
    ...trackedFields,
    error: foreignWord.describe("Why it failed; null when it did not."),
    times,
    registeredAt: time.nullable().describe("When it was started through the relay; null when it was only seen."),
    updatedAt,
  })
  .meta({ id: "Run", description: "A tracked automation run." });
export type RunView = View<typeof runSchema>;
export type RelayRun = z.infer<typeof runSchema>;

export const runPageSchema = z
  .object({ data: z.array(runSchema).describe("Newest first."), next: nextSeq })
  .meta({ id: "RunPage", description: "One page of runs." });

const nextStepSchema = z
  .object({
    kind: z.enum(["attempt", "due", "exchange", "held", "breaker", "paused", "stopped", "no route", "dead", "done"]).describe(
      `Why it waits, or that it does not.

| kind | meaning |
|---|---|
| \`attempt\` | the next attempt is made at \`at\` |
| \`due\` | due since \`at\`; it goes out within the destination's concurrency and rate |
| \`exchange\` | a proxied exchange is in flight |
| \`held\` | goes out after the delivery of event \`behind\`, and \`ahead\` more of its message |
| \`breaker\` | the destination failed repeatedly: attempts pause, and none is counted |
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
  })
  .meta({ id: "NextStep", description: "The next step of a delivery." });
export type NextStep = View<typeof nextStepSchema>;

const eventStorySchema = eventSchema
  .extend({
    request: ofRequest,
    hydration: hydrationSchema.nullable().describe("Hydration of a truncated event; null for all others."),
    routes: verdictsSchema,
    deliveries: z
      .array(
        deliverySchema
          .extend({
            attemptHistory: attemptHistory.describe("The latest attempts, oldest first."),
            earlierAttempts: count.describe("Number of attempts before those."),
            next: nextStepSchema.describe("What happens next."),
          })
          .meta({ id: "DeliveryStory", description: "A delivery with its attempts and its next step." }),
      )
      .describe("Its deliveries."),
  })
  .meta({ id: "EventStory", description: "An event with everything that happened to it." });

const storySchema = z
  .object({
    message: messageSchema.nullable().describe("The message; null for runs and single events."),
    run: runSchema.nullable().describe("The run; null for messages and single events."),
    events: z.array(eventStorySchema).describe("Oldest first."),
    next: seq.nullable().describe("`after` of the next page; null at the end."),
  })
  .meta({ id: "Story", description: "One message or run with its events, or one event." });
export type RelayStory = z.infer<typeof storySchema>;
export type EventStory = EventDetail & Pick<View<typeof eventStorySchema>, "deliveries">;
/** With the bytes of its events. */
export type Story = Omit<View<typeof storySchema>, "events"> & { readonly events: readonly EventStory[] };

export const explainedSchema = z
  .object({ data: z.array(storySchema).describe("Several stories when accounts, or messages with one reference, share the name.") })
  .meta({ id: "Stories", description: "The stories of everything that has the name." });
export type RelayExplained = z.infer<typeof explainedSchema>;

export const statsSchema = z
  .object({
    dispositions: z.object(counts(dispositions, (word) => `Events with the disposition \`${word}\`.`)).describe("Events by disposition."),
    duplicates: count.describe("How often a known event id was received again."),
    deliveries: z.object(counts(deliveryStates, (word) => `Deliveries in the state \`${word}\`.`)).describe("Deliveries by state."),
    attempts: z.object({ made: count.describe("All attempts."), failed: count.describe("Failed attempts.") }).describe("Attempts."),
  })
  .meta({ id: "Stats", description: "The sums of the stored events, deliveries and attempts." });
export type RelayStats = z.infer<typeof statsSchema>;

const secretUseSchema = z
  .object({
    source: z.string().describe("The source."),
    secret: z.string().describe("The secret's fingerprint."),
    place: text.describe("Its place in the current settings, such as `sources.main.signature.secrets[0]`; null when it was removed."),
    events: count.describe("Stored events that it verified, including quarantined ones, excluding duplicates."),
    duplicates: count.describe("Duplicates that it verified."),
    firstAt: time.nullable().describe("When it first verified a webhook; null when it never did."),
    lastAt: time.nullable().describe("When it last verified a webhook; null when it never did."),
  })
  .meta({ id: "SecretUse", description: "How often one secret of a source verified webhooks." });
export type SecretUse = z.infer<typeof secretUseSchema>;
export type SecretUseView = View<typeof secretUseSchema>;

export const secretUsesSchema = z
  .object({ data: z.array(secretUseSchema).describe("Secrets of the settings first, in their order there; then removed ones.") })
  .meta({ id: "SecretUses", description: "The usage of each secret." });

const sourceSchema = z
  .object({
    source: z.string().describe("The source."),
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
  })
  .meta({ id: "Source", description: "A source of the settings, and what arrived there." });
export type SourceView = View<typeof sourceSchema>;

export const sourceCheckSchema = z
  .object({
    source: z.string().describe("The source."),
    problems: z.array(z.string()).describe("Why webhooks do not arrive, or go elsewhere; none: nothing is wrong."),
    facts: z.array(z.string()).describe("What is right."),
  })
  .meta({ id: "SourceCheck", description: "What Meta's Graph API says of a source." });
export type SourceCheckView = View<typeof sourceCheckSchema>;

export const sourcesSchema = z
  .object({ data: z.array(sourceSchema).describe("The sources, in the order of the settings.") })
  .meta({ id: "Sources", description: "The sources of the settings." });

const faultSchema = z
  .object({
    path: z.string().describe("The setting."),
    message: z.string().describe("What is wrong."),
    source: z.string().describe("File, line and column, and the variable that the value comes from."),
  })
  .meta({ id: "SettingsFault", description: "A fault in the settings file." });

export const reloadSchema = z
  .object({
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
          source: z.string().describe("The source."),
          secret: z.string().describe("Fingerprint of the secret."),
          lastAt: time.describe("When it last verified an event."),
        }),
      )
      .describe(
        "Secrets that this reload removed although they verified an event within the last hour. Webhooks signed with them get 401.",
      ),
    faults: z.array(faultSchema).describe("Why it was refused."),
  })
  .meta({ id: "Reload", description: "The result of the last reload of the settings; before the first one, the start." });
export type Reload = z.infer<typeof reloadSchema>;
export type ReloadView = View<typeof reloadSchema>;

export const settingsViewSchema = z
  .object({
    loadedAt: time.describe("When the settings in effect were read."),
    file: text.describe("The settings file; null when the process was started without one."),
    settings: z
      .record(z.string(), z.unknown())
      .describe("The settings in effect, by section, with defaults filled in. Secrets are shown as `[secret <fingerprint>]`."),
  })
  .meta({ id: "Settings", description: "The settings in effect." });
export type SettingsView = View<typeof settingsViewSchema>;
export type RelaySettings = z.infer<typeof settingsViewSchema>;

const matching = count.describe("Number of deliveries.");

export const replayCountSchema = z
  .object({
    matching: count.describe("Deliveries that would be sent again; for quarantined events, those that are valid now."),
    routes: z
      .array(
        z.object({
          route: z.string().describe("The route."),
          matching,
          stopped: foreignText.describe("Why its destination is stopped; null when it is not."),
        }),
      )
      .describe("The same by route."),
    notSent: z
      .array(z.object({ route: z.string().describe("The route."), matching }))
      .describe("Deliveries that match but cannot be sent: their route is not in the settings, or a proxied exchange has ended."),
    invalid: z
      .array(z.object({ reason: pii("text", z.string()).describe("Why they are not valid."), events: count.describe("Number of events.") }))
      .exactOptional()
      .describe("For quarantined events: those that are not valid."),
  })
  .meta({ id: "ReplayCount", description: "What a replay would send." });
export type ReplayCount = z.infer<typeof replayCountSchema>;
export type ReplayCountView = View<typeof replayCountSchema>;

export const replayedSchema = z
  .object({
    replayed: count.describe("Deliveries sent again; for quarantined events, the number released."),
    next: text.describe("`cursor` of the next request; null when nothing is left."),
    duplicates: count.exactOptional().describe("For quarantined events: those whose event id was known."),
    invalid: count.exactOptional().describe("For quarantined events: those that are not valid and stay quarantined."),
  })
  .meta({ id: "Replayed", description: "One step of a replay." });
export type ReplayStep = View<typeof replayedSchema>;

export const resumedSchema = z
  .object({
    route: z.string().describe("The route."),
    resumed: z.boolean().describe("False when its destination was neither stopped nor paused, and its breaker not open."),
  })
  .meta({ id: "ResumedRoute", description: "A route after `resume`." });

export const handshakeSchema = z
  .object({
    route: z.string().describe("The route."),
    result: z
      .enum(["done", "remembered", "failed"])
      .describe("`remembered`: an earlier handshake with this URL and token succeeded, and none was performed now."),
    doneAt: time.nullable().describe("When the last one succeeded; null: none has."),
    problem: pii("text", z.string()).nullable().describe("What is wrong with the destination's answer; null unless `failed`."),
  })
  .meta({ id: "Handshake", description: "Meta's handshake with a route's destination." });
export type HandshakeView = View<typeof handshakeSchema>;

export const accountResumedSchema = z
  .object({
    account: z.string().describe("The account."),
    resumed: z.boolean().describe("False when it had no stops."),
    ended: z.array(z.string()).describe("Names of the stops that ended."),
  })
  .meta({ id: "ResumedAccount", description: "An account after `resume`." });

const reconcileStopSchema = z
  .object({
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
    detail: pii("text", z.string()).exactOptional().describe("The last answer, for `refused`, `unreadable` and `not-found`."),
  })
  .meta({ id: "ReconcileStop", description: "Why not every due message was polled." });
export type ReconcileStop = z.infer<typeof reconcileStopSchema>;

const missing = count.describe("Messages that the service does not know.");
const accountStanding = {
  postponed: count.describe("Due messages that were postponed to save the month's quota."),
  unpollable: count.describe("Messages known by wamid only, which cannot be polled."),
  stopped: reconcileStopSchema.nullable().describe("Why not every due message was polled; null when nothing stopped the polls."),
  lastsUntil: time.nullable().describe("When the month's quota would be used up if every due message were polled; null when it lasts."),
};

const accountReconciledSchema = z
  .object({
    account: z.string().describe("The account."),
    polled: count.describe("Messages polled."),
    changed: count.describe("Messages whose status changed."),
    unchanged: count.describe("Messages whose status did not change."),
    missing,
    failed: count.describe("Polls without a usable answer."),
    ...accountStanding,
  })
  .meta({ id: "AccountReconciled", description: "The result of a pass over one account." });
export type AccountReconciled = z.infer<typeof accountReconciledSchema>;

const accountPlanSchema = z
  .object({
    account: z.string().describe("The account."),
    due: count.describe("Messages that are due."),
    wouldPoll: count.describe("Most calls that a pass would make."),
    missing,
    ...accountStanding,
  })
  .meta({ id: "AccountPlan", description: "What a pass over one account would do." });
export type AccountPlan = z.infer<typeof accountPlanSchema>;

const lastPassSchema = accountReconciledSchema
  .omit({ account: true })
  .extend({
    endedAt: time.describe("When it ended."),
    unreachableSince: time.nullable().describe("Since when the service answers no poll; null when it does."),
  })
  .meta({ id: "LastPass", description: "The last reconciliation pass over an account." });

const stopSchema = z
  .object({
    reason: z
      .enum(["unauthenticated", "quota", "quota-messages", "quota-runs", "quota-contacts", "quota-reads", "blocked"])
      .describe("What stopped calls: a refused key, a used-up quota with the calls it covers, or a blocked address."),
    resource: foreignText.describe("The service's name of the quota; null when it gave none."),
    until: time.describe("When the next call tries again."),
  })
  .meta({ id: "AccountStop", description: "Calls of an account that the relay does not make at present." });

export const accountsSchema = z
  .object({
    data: z
      .array(
        z
          .object({
            account: z.string().describe("The account."),
            isCallable: z.boolean().describe("Whether the settings have `baseUrl` and `apiKey`. Only then the relay sends and polls."),
            plan: z.enum(["escala", "enterprise"]).describe("The plan in the settings."),
            stops: z.array(stopSchema).describe("Stopped calls; empty when there are none."),
            budget: z
              .object({
                from: time.describe("When the month began."),
                until: time.describe("When the quota renews."),
                quota: count.nullable().describe("The relay's share of the month's calls; null when the plan has no limit."),
                polls: count.describe("Polls made this month."),
                others: count.describe("Other calls made this month: sends, runs, reads."),
                left: count.nullable().describe("Calls left this month; null without a limit."),
                pollsNow: count.nullable().describe("Polls that the budget allows at this time; null without a limit."),
              })
              .meta({ id: "AccountBudget", description: "The month's calls. Each process adds its own within 15 seconds." })
              .describe("The month's calls."),
            lastPass: lastPassSchema.nullable().describe("The last reconciliation pass; null when none has ended yet."),
            nextPassAt: time.nullable().describe("When the schedule starts the next pass; null when `reconcile.schedule` is `off`."),
          })
          .meta({ id: "Account", description: "An account at the messaging service, and what the relay does with it." }),
      )
      .describe("The accounts of the settings, in their order."),
  })
  .meta({ id: "Accounts", description: "The accounts of the settings." });
export type AccountsView = View<typeof accountsSchema>;
export type RelayAccount = z.infer<typeof accountsSchema>["data"][number];

const dueBy = time.describe("The pass covers messages due by this time.");

export const reconciledSchema = z
  .object({
    dueBy,
    more: z.boolean().describe("True: repeat the request with this `dueBy` to continue the pass."),
    accounts: z.array(accountReconciledSchema).describe("The results by account."),
  })
  .meta({ id: "Reconciled", description: "One step of a reconciliation pass." });
export const reconcilePlanSchema = z
  .object({ dueBy, accounts: z.array(accountPlanSchema).describe("The plan by account.") })
  .meta({ id: "ReconcilePlan", description: "What a reconciliation pass would do." });

export const trackedSchema = z
  .object({ created: count.describe("Messages registered now."), known: count.describe("Messages registered before.") })
  .meta({ id: "Tracked", description: "The result of a registration." });

export const trackedLineSchema = z
  .object({
    line: z.int().describe("The message's number in the input, from 1."),
    wamid: pii("wamid", text).describe("Its wamid; null when the line has none."),
    result: z.enum(["created", "known", "conflict", "invalid"]).describe("What became of it."),
    error: pii("text", z.string()).exactOptional().describe("For `conflict` and `invalid`: what is wrong."),
    details: pii("json", z.unknown())
      .exactOptional()
      .describe("For `conflict`: `{stored, given}` by field. For `invalid`: the list of faults."),
  })
  .meta({ id: "TrackedLine", description: "The result of one line of NDJSON." });
export type TrackedLine = z.infer<typeof trackedLineSchema>;

const trackSumsSchema = z.object({
  lines: count.describe("Lines read."),
  created: count.describe("Messages registered now."),
  known: count.describe("Messages registered before."),
  conflict: count.describe("Messages that contradict what is stored."),
  invalid: count.describe("Lines that are not valid registrations."),
});
export type TrackSums = z.infer<typeof trackSumsSchema>;

export const trackEndSchema = trackSumsSchema
  .extend({
    stoppedAt: z.int().exactOptional().describe("The first line that was not registered. Only when the relay stopped early."),
    error: pii("text", z.string()).exactOptional().describe("Why the relay stopped early, for people."),
    code: z
      .enum(Object.keys(errorCodes) as ErrorCode[])
      .exactOptional()
      .describe("The same for programs."),
  })
  .meta({ id: "TrackEnd", description: "The last line of NDJSON: the sums." });
export type TrackEnd = z.infer<typeof trackEndSchema>;

const stored = z
  .boolean()
  .describe("False: done at the service, but the relay's store is unavailable. Keep the ids, and do not repeat the request.");

export const sentMessageSchema = z
  .object({
    account: z.string().describe("The account that sent it."),
    idempotencyKey: pii("text", z.string()).describe("The key of the request, or the one that the relay made."),
    id: pii("message", text).describe("The service's message id; null when its answer has none."),
    wamid: pii("wamid", z.string()).describe("Its wamid."),
    status: pii("word", z.string()).describe("Its status in the service's answer."),
    conversationId: pii("message", text).describe("The service's conversation id."),
    reference: foreignText.describe("The reference of the request."),
    stored,
  })
  .meta({ id: "SentMessage", description: "A message that was sent." });

export const startedRunSchema = z
  .object({
    account: z.string().describe("The account that started it."),
    reference: pii("text", z.string()).describe("The reference of the request."),
    runId: pii("run", z.string()).describe("The service's run id."),
    automation: pii("text", z.string()).describe("The automation."),
    created: z.boolean().describe("False: the run of this reference was started before."),
    stored,
  })
  .meta({ id: "StartedRun", description: "A run of an automation." });
export type StartedRun = z.infer<typeof startedRunSchema>;

export const instanceSchema = z
  .object({
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
  })
  .meta({ id: "Instance", description: "The process that answered." });
export type InstanceView = View<typeof instanceSchema>;
export type RelayInstance = z.infer<typeof instanceSchema>;

const listenerSchema = z
  .object({
    name: text.describe("The name of its cursor, masked when it looks like a phone number; null when it has none."),
    connectedAt: time.nullable().describe("When it connected to this process; null: it is not connected here."),
    movedAt: time.nullable().describe("When its stored cursor last moved; null when it has none."),
    position: seq.describe("Everything up to this seq was sent, or is done according to the cursor."),
    lag: count.describe("Number of seqs after its position."),
  })
  .meta({ id: "Listener", description: "A connected listener, or the cursor of one that is not connected." });
export type ListenerView = View<typeof listenerSchema>;
export type RelayListener = z.infer<typeof listenerSchema>;

export const listenersSchema = z
  .object({ data: z.array(listenerSchema).describe("Connected listeners first, then the other cursors, the latest moved first.") })
  .meta({ id: "Listeners", description: "The listeners of this process, and the stored cursors." });

export const cursorSchema = z
  .object({ name: pii("text", z.string()).describe("The listener's name."), seq: seq.describe("Everything up to this seq is done.") })
  .meta({ id: "Cursor", description: "The cursor of a listener, which never goes back." });

export const sessionSchema = z
  .object({
    name: z.string().describe("The token's name."),
    scopes: z.array(z.string()).describe("The token's scopes."),
    expiresAt: time.describe("When the session ends."),
  })
  .meta({ id: "Session", description: "A session of the console." });
export type RelaySession = z.infer<typeof sessionSchema>;

export const sessionEndedSchema = z
  .object({ ended: z.boolean().describe("False when there was no session.") })
  .meta({ id: "EndedSession", description: "A session after its end." });

export const sessionCodeSchema = z
  .object({ code: z.string().describe("The code."), expiresAt: time.describe("Until when it can be used.") })
  .meta({ id: "SessionCode", description: "A code that starts one session." });
export type SessionCode = z.infer<typeof sessionCodeSchema>;
