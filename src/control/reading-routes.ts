import type { FastifyInstance, FastifyRequest } from "fastify";
import { RelayError } from "../event/errors.ts";
import type { EventDetail, Reading } from "./port.ts";
import { presentAttempt, presentDelivery, presentEvent, presentEventDetail } from "./present.ts";
import { deliveryQuery, eventIdQuery, eventQuery, parse } from "./queries.ts";
import { addTrackedRoutes } from "./tracked-routes.ts";

/** Checks who asks, before the body is read: throws `unauthorized` or `forbidden`. */
export type OnRequest = (request: FastifyRequest) => Promise<void>;

/** The part of `/v1` that only looks. */
export function addReadingRoutes(app: FastifyInstance, reading: Reading, onRequest: OnRequest): void {
  const read = { onRequest };

  app.get("/v1/events", read, async (request) => {
    const { data, next } = await reading.listEvents(parse(eventQuery, request.query));
    return { data: data.map(presentEvent), next };
  });

  app.get<{ Params: { id: string } }>("/v1/events/:id", read, async (request) => {
    const { account } = parse(eventIdQuery, request.query);
    const found = await reading.findEvents(request.params.id);
    const event = onlyOne(found.filter((each) => account === undefined || each.account === account));
    const deliveries = await reading.deliveriesOf(event.seq);
    return {
      ...presentEventDetail(event),
      deliveries: deliveries.map(({ tries, ...delivery }) => ({ ...presentDelivery(delivery), tries: tries.map(presentAttempt) })),
    };
  });

  app.get("/v1/deliveries", read, async (request) => {
    const { data, next } = await reading.listDeliveries(parse(deliveryQuery, request.query));
    return { data: data.map(presentDelivery), next };
  });

  addTrackedRoutes(app, reading, onRequest);

  app.get("/v1/stats", read, async () => reading.stats());
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
