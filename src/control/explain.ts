import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { explainedSchema } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type AttemptView, attemptOf } from "./deliveries.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { type EventDetail, routesOf } from "./events.ts";
import { lookUp } from "./guesses.ts";

type EventStoryView = View<typeof explainedSchema>["data"][number]["events"][number];

export interface DeliveryStory extends Omit<EventStoryView["deliveries"][number], "attemptHistory"> {
  readonly attemptHistory: readonly AttemptView[];
}

export interface EventStory extends Pick<EventStoryView, "waits"> {
  readonly event: EventDetail;
  readonly deliveries: readonly DeliveryStory[];
}

/** One message or run with its events, or one event. */
export interface Story extends Omit<View<typeof explainedSchema>["data"][number], "events"> {
  readonly events: readonly EventStory[];
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
    "`data` has a story for each message, run or event that has the name. `unseen` is 0 unless too many events are unplanned to search all of them. It counts the oldest ones, which were not searched.",
  params: z.strictObject({
    name: z
      .string()
      .describe("An event's id or seq; a message's wamid, id or reference; a run's id or reference. The first in this order that exists."),
  }),
  query: z.strictObject({
    as: z.enum(["event", "message", "run"]).optional().describe("What the name is."),
    account: z.string().optional().describe("Selects among several accounts that have it."),
    after: z.coerce.number().int().min(0).optional().describe("Only events with a greater seq: `next` of the previous page."),
    limit: z.coerce.number().int().min(1).max(200).default(50).describe("Most events of each story."),
  }),
  answers: { 200: { text: "The stories.", schema: explainedSchema } },
  errors: ["not_found", "too_many_guesses"],
} as const;
export type ExplainQuery = z.infer<typeof story.params> & z.infer<typeof story.query>;

/** `GET /v1/explain/{name}`. */
export function addExplainRoute(app: FastifyInstance, port: ExplainPort, allow: Allow): void {
  addEndpoint(app, allow, story, async ({ params: { name }, query, request }) => {
    const { stories, unseen } = await lookUp(
      request,
      { names: [name] },
      () => port.explain({ name, ...query }),
      (found) => found.stories.length > 0,
    );
    if (stories.length === 0) throw new RelayError("not_found", notFoundText(unseen));
    return toAnswer(explainedSchema, { data: stories.map((each) => ({ ...each, events: each.events.map(eventStory) })), unseen });
  });
}

function notFoundText(unseen: number): string {
  const nothing = "not found: no event, message or run has this id, wamid or reference";
  return unseen === 0 ? nothing : `${nothing}; not searched: the oldest ${unseen} events that wait to be planned`;
}

function eventStory({ event, waits, deliveries }: EventStory): EventStoryView {
  const viewOf = (delivery: DeliveryStory) => ({ ...delivery, attemptHistory: delivery.attemptHistory.map(attemptOf) });
  return { ...event, waits, routes: routesOf(event), deliveries: deliveries.map(viewOf) };
}
