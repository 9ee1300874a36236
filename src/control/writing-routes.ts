import type { FastifyInstance } from "fastify";
import { RelayError } from "../event/errors.ts";
import type { Writing } from "./port.ts";
import { parse, replayBody } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";
import { addTrackRoutes } from "./track-routes.ts";

/** The part of `/v1` that changes something. */
export function addWritingRoutes(app: FastifyInstance, writing: Writing, allow: { replay: OnRequest; track: OnRequest }): void {
  const replay = { onRequest: allow.replay };

  app.post<{ Params: { id: string } }>("/v1/deliveries/:id/retry", replay, async (request) => {
    const retried = await writing.retry(request.params.id);
    if (retried === null) throw new RelayError("not_found", "no such delivery");
    return retried;
  });

  app.post("/v1/replay", replay, async (request) => {
    const { dryRun, cursor, limit, ...filter } = parse(replayBody, request.body ?? {});
    return dryRun ? await writing.countReplay(filter) : await writing.replay(filter, cursor, limit);
  });

  app.post<{ Params: { route: string } }>("/v1/routes/:route/resume", replay, async (request) => {
    const { route } = request.params;
    const resumed = await writing.resume(route);
    if (resumed === null) throw new RelayError("not_found", "no such route in the settings");
    return { route, resumed };
  });

  addTrackRoutes(app, writing, allow.track);
}
