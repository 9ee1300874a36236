import { z } from "zod";
import { deliveryStates } from "../model/delivery.ts";
import { dispositions } from "../model/plan.ts";

const nullable = { text: z.string().nullable(), number: z.number().nullable() };

const event = z.looseObject({
  seq: z.number(),
  id: nullable.text,
  event: nullable.text,
  account: z.string(),
  source: z.string(),
  origin: z.string(),
  receivedAt: z.string(),
  createdAt: nullable.text,
  secret: nullable.text,
  subject: z.looseObject({ type: z.string(), key: z.string() }).nullable(),
  status: nullable.text,
  previousStatus: nullable.text,
  transition: z.boolean(),
  errorCode: nullable.text,
  disposition: z.string(),
  parkedUntil: nullable.text,
  duplicates: z.number(),
  conflicts: z.number(),
  fault: nullable.text,
  releasedAs: nullable.number,
  releasedFrom: nullable.number,
  size: z.number(),
});

const delivery = z.looseObject({
  id: z.string(),
  event: z.number(),
  eventId: z.string(),
  route: z.string(),
  state: z.string(),
  attempts: z.number(),
  replays: z.number(),
  nextAt: nullable.text,
  settledAt: nullable.text,
  reason: nullable.text,
});

const attempt = z.looseObject({
  number: z.number(),
  at: z.string(),
  tookMs: z.number(),
  status: nullable.number,
  error: nullable.text,
  response: nullable.text,
});
const attempted = delivery.extend({ tries: z.array(attempt) });

/** What `events show` and `explain` both read of an event. */
const routedEvent = event.extend({
  hydration: z
    .looseObject({
      state: z.string(),
      reason: nullable.text,
      asked: z.number(),
      found: z.array(z.looseObject({ seq: z.number(), wamid: nullable.text, status: nullable.text })),
      foundCount: z.number(),
      unknown: nullable.number,
      candidates: z.array(z.looseObject({ runId: z.string(), reference: nullable.text })).nullable(),
      settledAt: nullable.text,
    })
    .nullable(),
  routes: z.array(z.looseObject({ route: z.string(), verdict: z.string(), reason: z.string().optional() })),
});

const eventDetail = routedEvent.extend({
  headers: z.record(z.string(), z.string()),
  /** Base64. */
  body: z.string(),
  /** Null when the body is not UTF-8. */
  text: nullable.text,
  deliveries: z.array(attempted),
});

const subject = z.looseObject({
  account: z.string(),
  reference: nullable.text,
  metadata: z.record(z.string(), z.unknown()).nullable(),
  status: nullable.text,
  times: z.record(z.string(), z.string()),
  registeredAt: nullable.text,
});

const next = z.looseObject({ kind: z.string(), at: nullable.text, behind: nullable.number, ahead: z.number(), reason: nullable.text });

const story = z.looseObject({
  message: subject.extend({ wamid: z.string(), id: nullable.text, errorCode: nullable.text, sentAt: nullable.text }).nullable(),
  run: subject.extend({ runId: z.string(), error: nullable.text }).nullable(),
  events: z.array(
    routedEvent.extend({
      waits: z.looseObject({ since: z.string(), ahead: z.number() }).nullable(),
      deliveries: z.array(attempted.extend({ earlierTries: z.number(), next })),
    }),
  ),
  next: nullable.number,
});

function sums<const Word extends string>(...words: Word[]) {
  return z.looseObject(Object.fromEntries(words.map((word) => [word, z.number()])) as Record<Word, z.ZodNumber>);
}
const eventSums = sums("received", ...dispositions, "unaccounted", "duplicates", "conflicts");
const deliverySums = sums("planned", ...deliveryStates, "swept", "unaccounted");

const polledAccount = z.looseObject({
  account: z.string(),
  leftForBudget: z.number(),
  unaskable: z.number(),
  missing: z.number(),
  stopped: z.looseObject({ reason: z.string(), until: nullable.text, detail: z.string().optional() }).nullable(),
  lastsUntil: nullable.text,
});

/** The relay's answers, as far as commands read them. Other fields are kept for `--json`. */
const answers = {
  event,
  delivery,
  eventDetail,
  /** Only lists of events have `unseen`. */
  events: z.looseObject({ data: z.array(event), next: nullable.number, unseen: z.number() }),
  deliveries: z.looseObject({ data: z.array(delivery), next: nullable.text, unseen: z.number().default(0) }),
  story,
  explained: z.looseObject({ data: z.array(story), unseen: z.number() }),
  replayCount: z.looseObject({
    matching: z.number(),
    routes: z.array(z.looseObject({ route: z.string(), matching: z.number(), stopped: nullable.text })),
    notSent: z.array(z.looseObject({ route: z.string(), matching: z.number() })),
    /** Quarantined events that would stay; only when those are counted. */
    invalid: z.array(z.looseObject({ reason: z.string(), events: z.number() })).default([]),
  }),
  replayed: z.looseObject({ replayed: z.number(), next: nullable.text }),
  retried: z.looseObject({
    id: z.string(),
    route: z.string(),
    state: z.string(),
    previousState: z.string(),
    stopped: nullable.text,
    pausedUntil: nullable.text,
  }),
  registered: z.looseObject({ created: z.number(), known: z.number() }),
  /** One line of NDJSON. */
  registeredLine: z.looseObject({
    line: z.number(),
    wamid: nullable.text,
    result: z.enum(["created", "known", "conflict", "invalid"]),
    error: z.string().optional(),
  }),
  lastLine: z.looseObject({ lines: z.number(), stoppedAt: z.number().optional(), error: z.string().optional() }),
  sent: z.looseObject({ id: nullable.text, wamid: z.string(), idempotencyKey: z.string(), stored: z.boolean() }),
  /** It is unknown whether an earlier call under this key sent the message. */
  unknownOutcome: z.object({ code: z.literal("outcome_unknown"), details: z.object({ resend: z.number(), justNow: z.boolean() }) }),
  resumed: z.looseObject({ resumed: z.boolean() }),
  accountResumed: z.looseObject({ resumed: z.boolean(), ended: z.array(z.string()) }),
  auditProgress: z.looseObject({ checked: z.number(), of: z.number() }),
  audit: z.looseObject({
    balanced: z.boolean(),
    at: z.string(),
    tookMs: z.number(),
    rows: sums("events", "deliveries", "attempts"),
    events: eventSums,
    days: z.array(eventSums.extend({ day: z.string(), source: z.string() })),
    deliveries: deliverySums,
    routes: z.array(deliverySums.extend({ route: z.string() })),
    gone: sums("swept", "missing"),
    broken: z.record(z.string(), z.number()),
    offenders: z.array(
      z.looseObject({ rule: z.string(), event: nullable.number, eventId: nullable.text, route: nullable.text, what: z.string() }),
    ),
  }),
  reconcilePlan: z.looseObject({
    dueBy: z.string(),
    accounts: z.array(polledAccount.extend({ due: z.number(), wouldAsk: z.number() })),
  }),
  reconciled: z.looseObject({
    dueBy: z.string(),
    more: z.boolean(),
    accounts: z.array(polledAccount.extend({ asked: z.number(), changed: z.number(), unchanged: z.number(), failed: z.number() })),
  }),
};

type Answers = typeof answers;
export type AnswerName = keyof Answers;
export type Answer<Name extends AnswerName> = z.infer<Answers[Name]>;

/** `json` as this answer, or the first fault. */
export function parseAnswer<Name extends AnswerName>(name: Name, json: unknown): { data: Answer<Name> } | { fault: string } {
  const parsed = answers[name].safeParse(json);
  if (parsed.success) return { data: parsed.data as Answer<Name> };
  const [issue] = parsed.error.issues;
  return { fault: `${issue?.path.map(String).join(".")}: ${issue?.message}` };
}
