import { z } from "zod";
import { CommandFailed } from "./io.ts";
import type { PrivateView } from "./output.ts";

/** What the commands read of the control API's answers. Fields they do not know are kept for `--json`. */
const eventSchema = z.looseObject({
  seq: z.number(),
  id: z.string().nullable(),
  event: z.string().nullable(),
  account: z.string(),
  source: z.string(),
  origin: z.string(),
  receivedAt: z.string(),
  createdAt: z.string().nullable(),
  secret: z.string().nullable(),
  subject: z.looseObject({ type: z.string(), key: z.string() }).nullable(),
  status: z.string().nullable(),
  previousStatus: z.string().nullable(),
  transition: z.boolean(),
  errorCode: z.string().nullable(),
  disposition: z.string(),
  parkedUntil: z.string().nullable(),
  duplicates: z.number(),
  conflicts: z.number(),
  fault: z.string().nullable(),
  releasedAs: z.number().nullable(),
  releasedFrom: z.number().nullable(),
  size: z.number(),
});
export type ShownEvent = z.infer<typeof eventSchema>;

const deliverySchema = z.looseObject({
  id: z.string(),
  event: z.number(),
  eventId: z.string(),
  route: z.string(),
  state: z.string(),
  attempts: z.number(),
  replays: z.number(),
  nextAt: z.string().nullable(),
  settledAt: z.string().nullable(),
  reason: z.string().nullable(),
});
export type ShownDelivery = z.infer<typeof deliverySchema>;

const attemptSchema = z.looseObject({
  number: z.number(),
  at: z.string(),
  tookMs: z.number(),
  status: z.number().nullable(),
  error: z.string().nullable(),
  response: z.string().nullable(),
});

const hydrationSchema = z.looseObject({
  state: z.string(),
  reason: z.string().nullable(),
  asked: z.number(),
  found: z.array(z.looseObject({ seq: z.number(), wamid: z.string().nullable(), status: z.string().nullable() })),
  foundCount: z.number(),
  unknown: z.number().nullable(),
  candidates: z.array(z.looseObject({ runId: z.string(), reference: z.string().nullable() })).nullable(),
});

const settledHydrationSchema = hydrationSchema.extend({ settledAt: z.string().nullable() });
export type ShownHydration = z.infer<typeof settledHydrationSchema>;

const verdictsSchema = z.array(z.looseObject({ route: z.string(), verdict: z.string(), reason: z.string().optional() }));

export const eventDetailSchema = eventSchema.extend({
  headers: z.record(z.string(), z.string()),
  /** Base64. */
  body: z.string(),
  /** Null when the body is no UTF-8. */
  text: z.string().nullable(),
  hydration: settledHydrationSchema.nullable(),
  routes: verdictsSchema,
  deliveries: z.array(deliverySchema.extend({ tries: z.array(attemptSchema) })),
});
export type ShownEventDetail = z.infer<typeof eventDetailSchema>;

/** The stories that `explain` shows. */
const tracked = {
  account: z.string(),
  reference: z.string().nullable(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  status: z.string().nullable(),
  times: z.record(z.string(), z.string()),
  registeredAt: z.string().nullable(),
};
const messageSchema = z.looseObject({
  ...tracked,
  wamid: z.string(),
  id: z.string().nullable(),
  errorCode: z.string().nullable(),
  sentAt: z.string().nullable(),
});
const runSchema = z.looseObject({ ...tracked, runId: z.string(), error: z.string().nullable() });

const nextSchema = z.looseObject({
  kind: z.string(),
  at: z.string().nullable(),
  behind: z.number().nullable(),
  ahead: z.number(),
  reason: z.string().nullable(),
});
export type NextView = z.infer<typeof nextSchema>;

export type HydrationView = z.infer<typeof hydrationSchema>;

const waitsSchema = z.looseObject({ since: z.string(), ahead: z.number() });
export type WaitsView = z.infer<typeof waitsSchema>;

const eventStorySchema = eventSchema.extend({
  hydration: hydrationSchema.nullable(),
  // An older relay does not return this.
  waits: waitsSchema.nullable().default(null),
  routes: verdictsSchema,
  deliveries: z.array(deliverySchema.extend({ tries: z.array(attemptSchema), earlierTries: z.number(), next: nextSchema })),
});
export type EventStoryView = z.infer<typeof eventStorySchema>;
export type DeliveryStoryView = EventStoryView["deliveries"][number];

const storySchema = z.looseObject({
  message: messageSchema.nullable(),
  run: runSchema.nullable(),
  events: z.array(eventStorySchema),
  next: z.number().nullable(),
});
export type StoryView = z.infer<typeof storySchema>;

export const explainedSchema = z.looseObject({ data: z.array(storySchema), unseen: z.number().default(0) });

export const replayCountSchema = z.looseObject({
  matching: z.number(),
  routes: z.array(z.looseObject({ route: z.string(), matching: z.number(), stopped: z.string().nullable() })),
  notSent: z.array(z.looseObject({ route: z.string(), matching: z.number() })),
  /** Only of quarantined events: those that stay. */
  invalid: z.array(z.looseObject({ reason: z.string(), events: z.number() })).default([]),
});
export type ReplayCount = z.infer<typeof replayCountSchema>;

export const replayedSchema = z.looseObject({ replayed: z.number(), next: z.string().nullable() });

export const retriedSchema = z.looseObject({
  id: z.string(),
  route: z.string(),
  state: z.string(),
  previousState: z.string(),
  stopped: z.string().nullable(),
  pausedUntil: z.string().nullable(),
});

export const createdSchema = z.looseObject({ created: z.number(), known: z.number() });
export const sentSchema = z.looseObject({ id: z.string().nullable(), wamid: z.string(), idempotencyKey: z.string(), stored: z.boolean() });
/** Nobody knows whether an earlier call under this key sent the message. */
export const unknownOutcomeSchema = z.object({
  code: z.literal("outcome_unknown"),
  details: z.object({ resend: z.number(), justNow: z.boolean() }),
});
export const resumedSchema = z.looseObject({ resumed: z.boolean() });
export const accountResumedSchema = z.looseObject({ resumed: z.boolean(), ended: z.array(z.string()) });

export function pageOf<T extends z.ZodType, N extends z.ZodType>(item: T, next: N) {
  // Only lists of events have it, and not those of an older relay.
  return z.looseObject({ data: z.array(item), next: next.nullable(), unseen: z.number().default(0) });
}

/** What pages of the two lists hold, for `readPages`. */
export const eventPage = { item: eventSchema, next: z.number() };
export const deliveryPage = { item: deliverySchema, next: z.string() };

/** An answer as one of these. Throws {@link CommandFailed} when it is none: a relay of another version, or no relay. */
export function readAnswer<T extends z.ZodType>(schema: T, json: unknown): z.infer<T> {
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new CommandFailed(`the answer is not that of this version's relay (${issue?.path.map(String).join(".")}: ${issue?.message})`);
}

/** All that the sender of an event chose. Also of the events in a story. */
export function maskedEvent<Event extends ShownEvent>(event: Event, view: PrivateView): Event {
  const text = (value: string | null) => (value === null ? null : view.text(value));
  return {
    ...event,
    id: event.id === null ? null : view.id("event", event.id),
    event: text(event.event),
    status: text(event.status),
    previousStatus: text(event.previousStatus),
    errorCode: text(event.errorCode),
    fault: text(event.fault),
    subject: event.subject === null ? null : { ...event.subject, key: view.subject(event.subject) },
  };
}

export function maskedDelivery<Delivery extends ShownDelivery>(delivery: Delivery, view: PrivateView): Delivery {
  return {
    ...delivery,
    id: view.delivery(delivery.id),
    eventId: view.id("event", delivery.eventId),
    reason: delivery.reason === null ? null : view.text(delivery.reason),
  };
}

/** Of what became of a truncated event, the parts in which events and explain are alike. */
interface Hydration {
  found: { wamid: string | null; status: string | null }[];
  candidates: { runId: string; reference: string | null }[] | null;
}

export function maskedHydration<H extends Hydration>(hydration: H, view: PrivateView): H {
  const found = hydration.found.map((news) => ({
    ...news,
    wamid: news.wamid === null ? null : view.subject({ type: "message", key: news.wamid }),
    status: news.status === null ? null : view.text(news.status),
  }));
  const candidates = hydration.candidates?.map((run) => maskedCandidate(run, view)) ?? null;
  return { ...hydration, found, candidates };
}

function maskedCandidate<Run extends { runId: string; reference: string | null }>(run: Run, view: PrivateView): Run {
  return { ...run, runId: view.id("run", run.runId), reference: run.reference === null ? null : view.text(run.reference) };
}

/** The base64 body is left out when masked: it would show everything. */
export function maskedDetail(event: ShownEventDetail, view: PrivateView): unknown {
  if (!view.isMasked) return event;
  const { body: _, ...rest } = event;
  const wamid = event.subject?.type === "message" ? event.subject.key : null;
  return {
    ...maskedEvent(rest as ShownEvent, view),
    body: null,
    hydration: event.hydration === null ? null : maskedHydration(event.hydration, view),
    text: event.text === null ? null : view.body(event.text, wamid),
    deliveries: event.deliveries.map((delivery) => ({
      ...maskedDelivery(delivery, view),
      tries: delivery.tries.map((each) => ({ ...each, response: each.response === null ? null : view.text(each.response) })),
    })),
  };
}
