import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import type { Writing } from "./port.ts";
import { iso } from "./present.ts";
import { replayBody } from "./queries.ts";
import { addTrackRoutes } from "./track-routes.ts";

const retry = {
  method: "POST",
  path: "/v1/deliveries/:id/retry",
  name: "retryDelivery",
  scope: "replay",
  summary: "Lets a delivery go out now",
  description: "A settled one waits again, under the same id; a held one stays held behind its message's earlier one.",
  params: z.strictObject({ id: z.string() }),
  answers: {
    200: "Its state now and before; `stopped` and `pausedUntil` are null unless its destination waits for an operator, or until then.",
  },
  errors: ["not_found", "conflict"],
} as const;

const replay = {
  method: "POST",
  path: "/v1/replay",
  name: "replay",
  scope: "replay",
  summary: "Sends settled deliveries again, in order; releases events from quarantine",
  description: "All that is given must hold; without anything, every dead letter. One call ends after some seconds.",
  body: replayBody,
  answers: {
    200: "How many went, and `next` for the rest (null: none is left). With `dryRun`, what would go. Of quarantined events also `duplicates` and `invalid`.",
  },
  errors: ["not_found"],
} as const;

const resume = {
  method: "POST",
  path: "/v1/routes/:route/resume",
  name: "resumeRoute",
  scope: "replay",
  summary: "Starts a destination again that stopped (410) or paused (429 with Retry-After)",
  params: z.strictObject({ route: z.string() }),
  answers: { 200: "`resumed` is false when it was neither stopped nor paused." },
  errors: ["not_found"],
} as const;

const resumeAccount = {
  method: "POST",
  path: "/v1/accounts/:account/resume",
  name: "resumeAccount",
  scope: "replay",
  summary: "Ends the stops of an account's used-up quotas",
  description: "Forgets smaller per-minute caps that the service reported, too. The next refused call stops the account again.",
  params: z.strictObject({ account: z.string() }),
  answers: { 200: "`ended` names the stops; `resumed` is false when there were none." },
  errors: ["not_found"],
} as const;

/** The part of `/v1` that changes something. */
export function addWritingRoutes(app: FastifyInstance, writing: Writing, allow: Allow): void {
  addEndpoint(app, allow, retry, async ({ params: { id } }) => {
    const retried = await writing.retry(id);
    if (retried === null) throw new RelayError("not_found", "no such delivery");
    return { ...retried, pausedUntil: iso(retried.pausedUntil) };
  });

  addEndpoint(app, allow, replay, async ({ body: { dryRun, cursor, limit = Number.MAX_SAFE_INTEGER, ...filter } }) =>
    dryRun ? await writing.countReplay(filter) : await writing.replay(filter, cursor, limit),
  );

  addEndpoint(app, allow, resume, async ({ params: { route } }) => {
    const resumed = await writing.resume(route);
    if (resumed === null) throw new RelayError("not_found", "no such route in the settings");
    return { route, resumed };
  });

  addEndpoint(app, allow, resumeAccount, async ({ params: { account } }) => {
    const ended = await writing.resumeAccount(account);
    if (ended === null) throw new RelayError("not_found", "no such account in the settings");
    return { account, resumed: ended.length > 0, ended };
  });

  addTrackRoutes(app, writing, allow);
}
