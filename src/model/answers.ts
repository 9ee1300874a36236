import { z } from "zod";
import { giveUpReasons, hydrationStates } from "./hydration.ts";
import { type DeliveryState, deliveryStates, dispositions } from "./states.ts";
import { time, type View } from "./view.ts";

/*
 * The answers of the control API (docs/endpoints.md). Each schema is the only declaration of its JSON: the ports, the HTTP
 * handlers, the published client and the commands derive their types from it.
 */

const text = z.string().nullable();
export const count = z.number();

/** A count for each word. */
export function counts<const Word extends string>(words: readonly Word[]): Record<Word, typeof count> {
  return Object.fromEntries(words.map((word) => [word, count])) as Record<Word, typeof count>;
}

export const eventSchema = z.object({
  seq: z.number(),
  /** Null when quarantined. */
  id: text,
  event: text,
  account: z.string(),
  source: z.string(),
  origin: z.string(),
  receivedAt: time,
  createdAt: time.nullable(),
  /** Fingerprint of the secret that verified it. */
  secret: text,
  subject: z.object({ type: z.enum(["message", "run"]), key: z.string() }).nullable(),
  status: text,
  previousStatus: text,
  transition: z.boolean(),
  errorCode: text,
  disposition: z.enum(dispositions),
  parkedUntil: time.nullable(),
  duplicates: count,
  conflicts: count,
  fault: text,
  /** For a released body: the seq of the event that it became. */
  releasedAs: z.number().nullable(),
  /** For an event released from quarantine: the seq of its body. */
  releasedFrom: z.number().nullable(),
  size: z.number(),
});
export type EventView = View<typeof eventSchema>;

/** Number of deliveries in each state; a state without deliveries has no field. */
const deliveryCountsSchema = z.object({
  waiting: count.exactOptional(),
  held: count.exactOptional(),
  delivered: count.exactOptional(),
  dead: count.exactOptional(),
} satisfies Record<DeliveryState, unknown>);
export type DeliveryCounts = z.infer<typeof deliveryCountsSchema>;

const listedEventSchema = eventSchema.extend({ deliveries: deliveryCountsSchema });
export type ListedEventView = View<typeof listedEventSchema>;
export type RelayEvent = z.infer<typeof listedEventSchema>;

/** Number of oldest unplanned events that a search by wamid did not cover. */
const unseen = z.number();

export const eventPageSchema = z.object({ data: z.array(listedEventSchema), next: z.number().nullable(), unseen });

const hydrationSchema = z.object({
  state: z.enum(hydrationStates),
  /** Why the relay gave up. */
  reason: z.enum(giveUpReasons).nullable(),
  /** Number of messages polled. */
  asked: count,
  /** The changes found, as the events that they became; the first hundred. */
  found: z.array(z.object({ id: z.string(), seq: z.number(), wamid: text, status: text })),
  foundCount: count,
  /** Tracked messages or runs that are candidates and were not polled; null: not counted. */
  unknown: z.number().nullable(),
  /** For results of automations: the open runs that are candidates. */
  candidates: z.array(z.object({ runId: z.string(), reference: text })).nullable(),
  settledAt: time.nullable(),
});
export type HydrationView = View<typeof hydrationSchema>;

export const deliverySchema = z.object({
  id: z.string(),
  /** `seq` of its event. */
  event: z.number(),
  eventId: z.string(),
  route: z.string(),
  state: z.enum(deliveryStates),
  attempts: count,
  replays: count,
  nextAt: time.nullable(),
  settledAt: time.nullable(),
  reason: text,
});
export type DeliveryView = View<typeof deliverySchema>;
export type RelayDelivery = z.infer<typeof deliverySchema>;

export const deliveryPageSchema = z.object({ data: z.array(deliverySchema), next: text });

export const attemptSchema = z.object({
  number: z.number(),
  at: time,
  tookMs: z.number(),
  /** HTTP status; null when no answer came. */
  status: z.number().nullable(),
  error: text,
  response: text,
});
export type Attempt = z.infer<typeof attemptSchema>;

const verdictsSchema = z.array(z.object({ route: z.string(), verdict: z.string(), reason: z.string().exactOptional() }));

export const eventDetailSchema = eventSchema.extend({
  headers: z.record(z.string(), z.string()),
  /** The received bytes, in base64. */
  body: z.string(),
  /** The same as text; null when they are not UTF-8. */
  text,
  /** Hydration of a truncated event; null for all others. */
  hydration: hydrationSchema.nullable(),
  routes: verdictsSchema,
  deliveries: z.array(deliverySchema.extend({ tries: z.array(attemptSchema) })),
});
export type RelayEventDetail = z.infer<typeof eventDetailSchema>;

export const retriedSchema = z.object({
  id: z.string(),
  route: z.string(),
  /** `waiting`: goes out now; `held`: waits for an earlier delivery of its message. */
  state: z.string(),
  previousState: z.string(),
  /** Why the destination is stopped; null when it is not. */
  stopped: text,
  /** Until when the destination is paused (429 with Retry-After); null when it is not. */
  pausedUntil: time.nullable(),
});
export type Retried = z.infer<typeof retriedSchema>;

const trackedFields = {
  reference: text,
  metadata: z.record(z.string(), z.unknown()).nullable(),
  status: text,
};
/** When each status was first seen. */
const times = z.record(z.string(), time);

export const messageSchema = z.object({
  account: z.string(),
  wamid: z.string(),
  /** The service's message id. */
  id: text,
  conversationId: text,
  ...trackedFields,
  errorCode: text,
  times,
  /** When it was sent, according to its registration. */
  sentAt: time.nullable(),
  /** Null: seen, but not registered. */
  registeredAt: time.nullable(),
  updatedAt: time,
});
export type MessageView = View<typeof messageSchema>;
export type RelayMessage = z.infer<typeof messageSchema>;

export const messagePageSchema = z.object({ data: z.array(messageSchema), next: z.number().nullable() });

export const runSchema = z.object({
  account: z.string(),
  runId: z.string(),
  ...trackedFields,
  /** Why it failed. */
  error: text,
  times,
  /** Null: not started through the relay, only seen. */
  registeredAt: time.nullable(),
  updatedAt: time,
});
export type RunView = View<typeof runSchema>;
export type RelayRun = z.infer<typeof runSchema>;

export const runPageSchema = z.object({ data: z.array(runSchema), next: z.number().nullable() });

/**
 * The next step of a delivery.
 *
 * | kind | meaning |
 * |---|---|
 * | `attempt` | the next attempt is made at `at` |
 * | `due` | since `at`; its turn comes within the destination's concurrency and rate |
 * | `exchange` | a proxied exchange is in flight |
 * | `held` | goes out after that of event `behind`, and `ahead` more of its message |
 * | `breaker` | the destination failed repeatedly: attempts pause, and none is counted |
 * | `paused` | the destination asked not to be called before `at` (429 with Retry-After) |
 * | `stopped` | its destination is stopped; `reason` is why |
 * | `no route` | its route is not in the settings |
 * | `dead` | nothing, until somebody retries it |
 * | `done` | nothing |
 */
const nextStepSchema = z.object({
  kind: z.enum(["attempt", "due", "exchange", "held", "breaker", "paused", "stopped", "no route", "dead", "done"]),
  at: time.nullable(),
  /** An event's seq. */
  behind: z.number().nullable(),
  ahead: count,
  reason: text,
});
export type NextStep = View<typeof nextStepSchema>;

const eventStorySchema = eventSchema.extend({
  hydration: hydrationSchema.nullable(),
  routes: verdictsSchema,
  /** Place in the queue of an event that is not planned yet; null once it is. `ahead`: events planned before it. */
  waits: z.object({ since: time, ahead: count }).nullable(),
  deliveries: z.array(
    deliverySchema.extend({
      /** The most recent ones. */
      tries: z.array(attemptSchema),
      /** Number of attempts before those. */
      earlierTries: count,
      next: nextStepSchema,
    }),
  ),
});

/** One message or run with its events, or one event. */
export const storySchema = z.object({
  /** Null while none of its events is planned. */
  message: messageSchema.nullable(),
  run: runSchema.nullable(),
  /** Oldest first. */
  events: z.array(eventStorySchema),
  /** `after` of the next page; null: this is the last one. */
  next: z.number().nullable(),
});
export type RelayStory = z.infer<typeof storySchema>;

/** Several stories when accounts, or messages with one reference, share the name. */
export const explainedSchema = z.object({ data: z.array(storySchema), unseen });
export type RelayExplained = z.infer<typeof explainedSchema>;

export const statsSchema = z.object({
  dispositions: z.record(z.enum(dispositions), count),
  duplicates: count,
  deliveries: z.record(z.enum(deliveryStates), count),
  attempts: z.object({ made: count, failed: count }),
});
export type RelayStats = z.infer<typeof statsSchema>;

/** How often one secret of a source verified webhooks. */
const secretUseSchema = z.object({
  source: z.string(),
  /** The fingerprint. */
  secret: z.string(),
  /** Its place in the current settings, such as `sources.main.signature.secrets[0]`; null when it was removed. */
  place: text,
  /** Stored events, including quarantined ones, excluding duplicates. */
  events: count,
  duplicates: count,
  firstAt: time.nullable(),
  lastAt: time.nullable(),
});
export type SecretUse = z.infer<typeof secretUseSchema>;
export type SecretUseView = View<typeof secretUseSchema>;

export const secretUsesSchema = z.object({ data: z.array(secretUseSchema) });

/** A fault in the settings file. `source`: file, line and column, and the variable that the value comes from. */
const faultSchema = z.object({ path: z.string(), message: z.string(), source: z.string() });

/** What the last reload of the settings did; before the first one, the start. */
export const reloadSchema = z.object({
  /** `refused`: something is faulty, and the settings of before stay in effect. */
  result: z.enum(["applied", "refused"]),
  trigger: z.enum(["start", "signal", "api"]),
  at: time,
  /** When the settings in effect were read. */
  loadedAt: time,
  /** Paths of the settings that changed, such as `sources.main.signature.secrets` or `routes[crm].to.url`. */
  changed: z.array(z.string()),
  /** Those that differ from what the process started with, and have no effect before a restart. */
  needRestart: z.array(z.string()),
  /** Variables of the env file that have another value in the process environment, which wins. */
  overridden: z.array(z.string()),
  /** Why it was refused. */
  faults: z.array(faultSchema),
});
export type Reload = z.infer<typeof reloadSchema>;
export type ReloadView = View<typeof reloadSchema>;

export const replayCountSchema = z.object({
  matching: count,
  routes: z.array(z.object({ route: z.string(), matching: count, stopped: text })),
  /** Deliveries that match but cannot be sent: their route is not in the settings, or a proxied exchange has ended. */
  notSent: z.array(z.object({ route: z.string(), matching: count })),
  /** Only for quarantined events: why the remaining ones are not valid. */
  invalid: z.array(z.object({ reason: z.string(), events: count })).exactOptional(),
});
export type ReplayCount = z.infer<typeof replayCountSchema>;
export type ReplayCountView = View<typeof replayCountSchema>;

export const replayedSchema = z.object({
  /** Deliveries sent again; for quarantined events, the number released. */
  replayed: count,
  /** Where to continue; null: nothing is left. */
  next: text,
  /** Only for quarantined events: `duplicates` have an event id that was known, `invalid` ones stay quarantined. */
  duplicates: count.exactOptional(),
  invalid: count.exactOptional(),
});
export type ReplayStep = View<typeof replayedSchema>;

export const resumedSchema = z.object({ route: z.string(), resumed: z.boolean() });
export const accountResumedSchema = z.object({ account: z.string(), resumed: z.boolean(), ended: z.array(z.string()) });

/** Why not every due message was polled. */
const reconcileStopSchema = z.object({
  reason: z.enum(["unauthenticated", "quota", "blocked", "unreachable", "refused", "unreadable", "not-found"]),
  until: time.nullable(),
  /** The last answer, where the reason is one of the last three. */
  detail: z.string().exactOptional(),
});
export type ReconcileStop = z.infer<typeof reconcileStopSchema>;

const accountStanding = {
  /** Due, but postponed to save the month's quota. */
  leftForBudget: count,
  /** Known by wamid only: they cannot be polled. */
  unaskable: count,
  stopped: reconcileStopSchema.nullable(),
  /** When the month's quota would be used up if every due message were polled; null: it lasts. */
  lastsUntil: time.nullable(),
};

const accountReconciledSchema = z.object({
  account: z.string(),
  asked: count,
  changed: count,
  unchanged: count,
  /** Messages that the service does not know. */
  missing: count,
  failed: count,
  ...accountStanding,
});
export type AccountReconciled = z.infer<typeof accountReconciledSchema>;

const accountPlanSchema = z.object({
  account: z.string(),
  due: count,
  /** Most calls that a pass would make. */
  wouldAsk: count,
  /** Messages that the service does not know. */
  missing: count,
  ...accountStanding,
});
export type AccountPlan = z.infer<typeof accountPlanSchema>;

export const reconciledSchema = z.object({ dueBy: time, more: z.boolean(), accounts: z.array(accountReconciledSchema) });
export const reconcilePlanSchema = z.object({ dueBy: time, accounts: z.array(accountPlanSchema) });

export const trackedSchema = z.object({ created: count, known: count });

export const trackedLineSchema = z.object({
  /** The message's number in the input, from 1. */
  line: z.number(),
  wamid: text,
  result: z.enum(["created", "known", "conflict", "invalid"]),
  /** With `conflict` and `invalid`. */
  error: z.string().exactOptional(),
  details: z.unknown().exactOptional(),
});
export type TrackedLine = z.infer<typeof trackedLineSchema>;

export const trackSumsSchema = z.object({ lines: count, created: count, known: count, conflict: count, invalid: count });
export type TrackSums = z.infer<typeof trackSumsSchema>;

export const sentMessageSchema = z.object({
  account: z.string(),
  idempotencyKey: z.string(),
  /** The service's message id; null when its answer had none. */
  id: text,
  wamid: z.string(),
  status: z.string(),
  conversationId: text,
  reference: text,
  /** False: it was sent, but the relay's store is unavailable. Keep `id` and `wamid`, and do not send it again. */
  stored: z.boolean(),
});

export const startedRunSchema = z.object({
  account: z.string(),
  reference: z.string(),
  runId: z.string(),
  automation: z.string(),
  /** False: the run of this reference was started before. */
  created: z.boolean(),
  stored: z.boolean(),
});
export type StartedRun = z.infer<typeof startedRunSchema>;

export const instanceSchema = z.object({
  /** Of this process: a restart gives another one. */
  instance: z.string(),
  version: z.string(),
  pid: z.number(),
  host: z.string(),
  role: z.enum(["receive", "both"]),
  startedAt: time,
  store: z.object({
    driver: z.enum(["sqlite", "redis"]),
    /** The file, or the address and prefix of Redis without user and password. */
    place: z.string(),
    /** Identifies the stored data; null while Redis is unavailable. */
    data: text,
    /** Device and inode of the file; null for Redis. */
    file: text,
  }),
  /** A keyed digest of each setting in effect; null while Redis is unavailable. */
  settings: z.array(z.object({ path: z.string(), digest: z.string() })).nullable(),
});
export type InstanceView = View<typeof instanceSchema>;
export type RelayInstance = z.infer<typeof instanceSchema>;

export const cursorSchema = z.object({ name: z.string(), seq: z.number() });
