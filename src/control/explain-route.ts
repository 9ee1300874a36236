import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import type { EventStory, ExplainPort, Story } from "./explain-port.ts";
import { iso, presentAttempt, presentDelivery, presentEventDetail } from "./present.ts";
import { presentMessage, presentRun } from "./tracked-routes.ts";

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

/** `GET /v1/explain/{name}`: the whole story of an event, message or run, without bodies. */
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
