import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import type { EventDetail, Reading } from "./port.ts";
import { presentAttempt, presentDelivery, presentEvent, presentEventDetail } from "./present.ts";
import { accountQuery, deliveryQuery, eventQuery } from "./queries.ts";
import { addTrackedRoutes } from "./tracked-routes.ts";

const events = {
  method: "GET",
  path: "/v1/events",
  name: "listEvents",
  scope: "read",
  summary: "Events, without their bodies",
  description:
    "`unseen` is 0 unless a `wamid` is asked for and too many events wait to be planned to look through all of them: so many, the oldest, were not.",
  query: eventQuery,
  answers: { 200: { text: "Those for which all that is given holds.", list: true } },
} as const;

const event = {
  method: "GET",
  path: "/v1/events/:id",
  name: "getEvent",
  scope: "read",
  summary: "One event with its bytes, what each route did with it, and its deliveries",
  description: "When events of several accounts have the id, `bad_request` lists them.",
  params: z.strictObject({ id: z.string().describe("Its id or seq.") }),
  query: accountQuery,
  answers: { 200: "The event; `body` is base64." },
  errors: ["not_found"],
} as const;

const deliveries = {
  method: "GET",
  path: "/v1/deliveries",
  name: "listDeliveries",
  scope: "read",
  summary: "Deliveries, those of the newest events first",
  query: deliveryQuery,
  answers: { 200: { text: "Those for which all that is given holds.", list: true } },
} as const;

const stats = {
  method: "GET",
  path: "/v1/stats",
  name: "getStats",
  scope: "read",
  summary: "Sums of events, deliveries and attempts",
  description: "Counts every row, which takes about a second per million events.",
  answers: { 200: "The sums." },
} as const;

/** The part of `/v1` that only looks. */
export function addReadingRoutes(app: FastifyInstance, reading: Reading, allow: Allow): void {
  addEndpoint(app, allow, events, async ({ query }) => {
    const { data, next, unseen } = await reading.listEvents(query);
    return { data: data.map(presentEvent), next, unseen };
  });

  addEndpoint(app, allow, event, async ({ params: { id }, query: { account } }) => {
    const found = await reading.findEvents(id);
    const event = onlyOne(found.filter((each) => account === undefined || each.account === account));
    const deliveries = await reading.deliveriesOf(event.seq);
    return {
      ...presentEventDetail(event),
      deliveries: deliveries.map(({ tries, ...delivery }) => ({ ...presentDelivery(delivery), tries: tries.map(presentAttempt) })),
    };
  });

  addEndpoint(app, allow, deliveries, async ({ query }) => {
    const { data, next } = await reading.listDeliveries(query);
    return { data: data.map(presentDelivery), next };
  });

  addTrackedRoutes(app, reading, allow);

  addEndpoint(app, allow, stats, async () => reading.stats());
}

function onlyOne(events: readonly EventDetail[]): EventDetail {
  const [event, ...others] = events;
  if (event === undefined) throw new RelayError("not_found", "no such event");
  if (others.length > 0) {
    throw new RelayError(
      "bad_request",
      "events of several accounts have this id; ask with account=, or by seq",
      events.map(({ seq, account }) => ({ seq, account })),
    );
  }
  return event;
}
