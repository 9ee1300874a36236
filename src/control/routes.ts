import type { FastifyInstance, FastifyRequest } from "fastify";
import { RelayError } from "../event/errors.ts";
import type { Authorize } from "./auth.ts";
import type { Control } from "./port.ts";
import { presentAttempt, presentDelivery, presentEvent, presentEventDetail } from "./present.ts";
import { deliveryQuery, eventQuery, parse, replayBody, trackBody } from "./queries.ts";

export interface ControlParts {
  readonly control: Control;
  readonly authorize: () => Authorize;
}

/** The control API under `/v1`. */
export function addControlRoutes(app: FastifyInstance, { control, authorize }: ControlParts): void {
  const allow = (scope: string) => async (request: FastifyRequest) => {
    authorize()(request.headers.authorization, scope);
  };
  const read = { preHandler: allow("read") };
  const replay = { preHandler: allow("replay") };
  const track = { preHandler: allow("track") };

  app.get("/v1/events", read, async (request) => {
    const events = control.listEvents(parse(eventQuery, request.query)).map(presentEvent);
    return { data: events, next: events.at(-1)?.seq ?? null };
  });

  app.get<{ Params: { id: string } }>("/v1/events/:id", read, async (request) => {
    const [event] = control.findEvents(request.params.id);
    if (event === undefined) throw new RelayError("not_found", "no such event");
    const deliveries = control
      .deliveriesOf(event.seq)
      .map(({ tries, ...delivery }) => ({ ...presentDelivery(delivery), tries: tries.map(presentAttempt) }));
    return { ...presentEventDetail(event), deliveries };
  });

  app.get("/v1/deliveries", read, async (request) => {
    const deliveries = control.listDeliveries(parse(deliveryQuery, request.query)).map(presentDelivery);
    return { data: deliveries, next: deliveries.at(-1)?.event ?? null };
  });

  app.post<{ Params: { id: string } }>("/v1/deliveries/:id/retry", replay, async (request) => {
    const retried = await control.retry(request.params.id);
    if (retried === null) throw new RelayError("not_found", "no such delivery");
    return retried;
  });

  app.post("/v1/replay", replay, async (request) => {
    const { dryRun, ...filter } = parse(replayBody, request.body ?? {});
    return dryRun ? { matching: control.countReplay(filter), replayed: 0 } : { replayed: await control.replay(filter) };
  });

  app.post<{ Params: { route: string } }>("/v1/routes/:route/resume", replay, async (request) => {
    return { route: request.params.route, resumed: await control.resume(request.params.route) };
  });

  app.post("/v1/messages/track", track, async (request) => control.register(parse(trackBody, request.body)));

  app.get("/v1/stats", read, async () => control.stats());
}
