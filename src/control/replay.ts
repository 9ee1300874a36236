import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type ReplayCountView, type ReplayStep, replayCountSchema, replayedSchema } from "../model/answers.ts";
import { toAnswer } from "../model/view.ts";
import { type Allow, addEndpoint, time } from "./endpoint.ts";

export interface ReplayPort {
  countReplay(filter: ReplayQuery): Promise<ReplayCountView>;
  /** Replays what matches `filter`, starting at `cursor` (null: the beginning), up to `limit` deliveries or some seconds. */
  replay(filter: ReplayQuery, cursor: string | null, limit: number): Promise<ReplayStep>;
}

const replayBody = z
  .strictObject({
    route: z.string().optional(),
    disposition: z
      .enum(["routed", "filtered", "ignored", "quarantined"])
      .optional()
      .describe(
        "Of events with this one. `filtered` and `ignored` ones are judged anew, `quarantined` ones are released when they are valid now; `states` says nothing then.",
      ),
    source: z.string().optional().describe("Of this source. Only with `disposition: quarantined`."),
    event: z.number().int().min(1).optional().describe("The seq of one event. Only with `disposition: quarantined`."),
    /** Only `dead` by default: delivered ones are sent again only on request. */
    states: z
      .array(z.enum(["delivered", "dead"]))
      .min(1)
      .default(["dead"]),
    errorCode: z.string().optional(),
    from: time.optional().describe("Of events received from this on."),
    to: time.optional().describe("Of events received before this."),
    dryRun: z.boolean().default(false).describe("Only count."),
    cursor: z
      .string()
      .regex(/^\d{1,15}\.\d{1,15}\.\d{1,15}$/, "is not the next of an answer before")
      .nullable()
      .default(null)
      .describe("`next` of the answer before, with the same filter."),
    limit: z.number().int().min(1).optional().describe("Most deliveries of one call. Not given: as many as go within its time."),
  })
  .prefault({});
export type ReplayQuery = Omit<z.infer<typeof replayBody>, "dryRun" | "cursor" | "limit">;

const replay = {
  method: "POST",
  path: "/v1/replay",
  name: "replay",
  scope: "replay",
  summary: "Sends settled deliveries again, in order; releases events from quarantine",
  description: "All that is given must hold; without anything, every dead letter. One call ends after some seconds.",
  body: replayBody,
  answers: {
    200: {
      text: "How many went, and `next` for the rest (null: none is left). With `dryRun`, what would go. Of quarantined events also `duplicates` and `invalid`.",
      schema: z.union([replayedSchema, replayCountSchema]),
    },
  },
  errors: ["not_found"],
} as const;

/** `POST /v1/replay`. */
export function addReplayRoute(app: FastifyInstance, port: ReplayPort, allow: Allow): void {
  addEndpoint(app, allow, replay, async ({ body: { dryRun, cursor, limit = Number.MAX_SAFE_INTEGER, ...filter } }) =>
    dryRun
      ? toAnswer(replayCountSchema, await port.countReplay(filter))
      : toAnswer(replayedSchema, await port.replay(filter, cursor, limit)),
  );
}
