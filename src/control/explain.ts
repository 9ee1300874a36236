import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../model/errors.ts";
import { type AttemptView, type DeliveryView, presentAttempt, presentDelivery } from "./deliveries.ts";
import { type Allow, addEndpoint, iso } from "./endpoint.ts";
import { type EventDetail, presentEventDetail } from "./events.ts";
import { type MessageView, presentMessage, presentRun, type RunView } from "./messages.ts";

/**
 * The next step of a delivery.
 *
 * | kind | meaning |
 * |---|---|
 * | `attempt` | the next attempt is made at `at` |
 * | `due` | since `at`; its turn comes within the destination's concurrency and rate |
 * | `exchange` | a proxied exchange is under way |
 * | `held` | goes out after that of event `behind`, and `ahead` more of its message |
 * | `breaker` | the destination failed time and again: attempts pause, and none is spent |
 * | `paused` | the destination asked not to be called before `at` (429 with Retry-After) |
 * | `stopped` | its destination is stopped; `reason` says why |
 * | `no route` | its route is not in the settings |
 * | `dead` | nothing, until somebody retries it |
 * | `done` | nothing |
 */
export interface NextStep {
  readonly kind: "attempt" | "due" | "exchange" | "held" | "breaker" | "paused" | "stopped" | "no route" | "dead" | "done";
  /** Unix ms. */
  readonly at: number | null;
  /** An event's seq. */
  readonly behind: number | null;
  readonly ahead: number;
  readonly reason: string | null;
}

export interface DeliveryStory extends DeliveryView {
  /** The most recent ones. */
  readonly tries: readonly AttemptView[];
  /** Number of attempts before those. */
  readonly earlierTries: number;
  readonly next: NextStep;
}

/** The place in the queue of an event that is accepted and not yet planned. */
interface Waits {
  /** Unix ms. */
  readonly since: number;
  /** Events planned before it. */
  readonly ahead: number;
}

export interface EventStory {
  readonly event: EventDetail;
  /** Null once it is planned. */
  readonly waits: Waits | null;
  readonly deliveries: readonly DeliveryStory[];
}

/** One message or run with its events, or one event. `message` is null while none of its events is planned. */
export interface Story {
  readonly message: MessageView | null;
  readonly run: RunView | null;
  /** Oldest first. */
  readonly events: readonly EventStory[];
  /** `after` of the next page; null: this is the last one. */
  readonly next: number | null;
}

export interface Explained {
  /** Several when accounts, or messages with one reference, share the name; none when nothing has it. */
  readonly stories: readonly Story[];
  /** Number of oldest unplanned events that were not searched. */
  readonly unseen: number;
}

export interface ExplainPort {
  explain(query: ExplainQuery): Promise<Explained>;
}

const story = {
  method: "GET",
  path: "/v1/explain/:name",
  name: "explain",
  scope: "read",
  summary: "The whole story of an event, message or run, without bodies",
  description:
    "`data` has a story for each message, run or event that has the name; several share a reference. Events come oldest first; `waits` is when one that waits to be planned was received, and how many are planned before it. `unseen` is 0 unless too many wait to look through all of them for those of a message: so many, the oldest, were not.",
  params: z.strictObject({
    name: z
      .string()
      .describe("An event's id or seq; a message's wamid, id or reference; a run's id or reference. The first of these in this order."),
  }),
  query: z.strictObject({
    as: z.enum(["event", "message", "run"]).optional().describe("What the name is."),
    account: z.string().optional().describe("Where several have something of this name."),
    after: z.coerce.number().int().min(0).optional().describe("Only events with a greater seq: `next` of the page before."),
    limit: z.coerce.number().int().min(1).max(200).default(50).describe("Events of each story."),
  }),
  answers: { 200: { text: "The stories.", list: true } },
  errors: ["not_found"],
} as const;
export type ExplainQuery = z.infer<typeof story.params> & z.infer<typeof story.query>;

/** `GET /v1/explain/{name}`. */
export function addExplainRoute(app: FastifyInstance, port: ExplainPort, allow: Allow): void {
  addEndpoint(app, allow, story, async ({ params: { name }, query }) => {
    const { stories, unseen } = await port.explain({ name, ...query });
    if (stories.length === 0) throw new RelayError("not_found", notFoundText(unseen));
    return { data: stories.map(presentStory), unseen };
  });
}

function notFoundText(unseen: number): string {
  const nothing = "nothing known has this event id, wamid, id or reference";
  return unseen === 0 ? nothing : `${nothing}; not looked at: the oldest ${unseen} of the events that wait to be planned`;
}

function presentStory({ message, run, events, next }: Story) {
  return {
    message: message === null ? null : presentMessage(message),
    run: run === null ? null : presentRun(run),
    events: events.map(presentEventStory),
    next,
  };
}

function presentEventStory({ event, waits, deliveries }: EventStory) {
  const {
    body: _,
    text: __,
    headers: ___,
    ...rest
  } = presentEventDetail(event) as ReturnType<typeof presentEventDetail> & { headers: unknown };
  return {
    ...rest,
    waits: waits === null ? null : { since: iso(waits.since), ahead: waits.ahead },
    deliveries: deliveries.map(({ tries, next, ...delivery }) => ({
      ...presentDelivery(delivery),
      tries: tries.map(presentAttempt),
      next: { ...next, at: iso(next.at) },
    })),
  };
}
