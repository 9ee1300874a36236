import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type ReplayCountView, type ReplayStep, replayCountSchema, replayedSchema } from "../model/answers.ts";
import { toAnswer } from "../model/view.ts";
import { cause } from "./deliveries.ts";
import { type Allow, addEndpoint, idText, time } from "./endpoint.ts";

export interface ReplayPort {
  countReplay(filter: ReplayQuery): Promise<ReplayCountView>;
  /** Replays what matches `filter`, starting at `cursor` (null: the beginning), up to `limit` deliveries or some seconds. */
  replay(filter: ReplayQuery, cursor: string | null, limit: number): Promise<ReplayStep>;
}

const replayBody = z
  .strictObject({
    route: z.string().optional().describe("Only of this route."),
    disposition: z
      .enum(["routed", "filtered", "ignored", "quarantined"])
      .optional()
      .describe(
        "Only of events with this one. `filtered` and `ignored` events are routed again. `quarantined` ones are released when they are valid now, whatever `states` is.",
      ),
    source: z.string().optional().describe("Only of this source. Only with `disposition: quarantined`."),
    event: z.number().int().min(1).optional().describe("The seq of one event. Only with `disposition: quarantined`."),
    states: z
      .array(z.enum(["waiting", "delivered", "dead"]))
      .min(1)
      .refine((states) => !states.includes("waiting") || states.every((state) => state === "waiting"), "waiting stands alone")
      .default(["dead"])
      .describe("Only in these states. `waiting`, alone: those that wait for their next attempt go out now."),
    cause,
    errorCode: idText.optional().describe("Only of events with this error code."),
    from: time.optional().describe("Of events received at or after this time."),
    to: time.optional().describe("Of events received before this time."),
    dryRun: z.boolean().default(false).describe("Only count."),
    cursor: z
      .string()
      .regex(/^\d{1,15}\.\d{1,15}\.-?\d{1,16}\..{0,200}$/, "is not the next of an answer before")
      .nullable()
      .default(null)
      .describe("`next` of the previous answer, with the same filter."),
    limit: z.number().int().min(1).optional().describe("Most deliveries of one request. Default: as many as it can send in a few seconds."),
  })
  .prefault({});
export type ReplayQuery = Omit<z.infer<typeof replayBody>, "dryRun" | "cursor" | "limit">;

const replay = {
  method: "POST",
  path: "/v1/replay",
  name: "replay",
  scope: "replay",
  summary: "Sends deliveries again, in order, or releases quarantined events",
  description:
    "Every condition must hold; without one, every dead letter matches. One request ends after a few seconds: repeat it with `cursor` until `next` is null.",
  body: replayBody,
  answers: {
    200: {
      text: "The number sent, and `next` for the rest. With `dryRun`: what would be sent.",
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
