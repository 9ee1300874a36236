import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import type { EventStory, ExplainPort, Story } from "./explain-port.ts";
import { iso, presentAttempt, presentDelivery, presentEventDetail } from "./present.ts";
import { parse } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";
import { presentMessage, presentRun } from "./tracked-routes.ts";

const explainQuery = z.strictObject({
  as: z.enum(["event", "message", "run"]).optional(),
  account: z.string().optional(),
  after: z.coerce.number().int().min(0).optional(),
  /** Events of each story. */
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

/** `GET /v1/explain/{name}`: the whole story of an event, message or run, without bodies. */
export function addExplainRoute(app: FastifyInstance, port: ExplainPort, onRequest: OnRequest): void {
  app.get<{ Params: { name: string } }>("/v1/explain/:name", { onRequest }, async (request) => {
    const { name } = request.params;
    const { stories, unseen } = await port.explain({ name, ...parse(explainQuery, request.query) });
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
