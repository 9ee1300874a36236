import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../model/errors.ts";
import {
  keysOf,
  mostSteps,
  type QualityQuery,
  type QualityView,
  qualitySchema,
  type SeriesQuery,
  type SeriesView,
  type StepName,
  seriesKeys,
  seriesNames,
  seriesQuery,
  seriesSchema,
  seriesTable,
  stepNames,
} from "../model/history.ts";
import { maxIdLength } from "../model/ids.ts";
import { toAnswer } from "../model/view.ts";
import { type Allow, addEndpoint, time } from "./endpoint.ts";

export interface HistoryPort {
  readonly now: () => number;
  series(query: SeriesQuery): Promise<SeriesView>;
  quality(query: QualityQuery): Promise<QualityView>;
}

const series = {
  method: "GET",
  path: "/v1/series",
  name: "getSeries",
  scope: "read",
  summary: "Counts, percentiles and gauges over time",
  description: `The relay counts in the transaction that stores what it counts. A percentile is at most 19 % from the exact one. If that is 1 or less, the percentile is between 0 and 1. Minutes become hours after two days.

${seriesTable}`,
  query: z.strictObject({
    name: z.enum(seriesNames).describe("The series."),
    by: z.enum(seriesKeys).optional().describe("What to split it by. Default: the first of the table below."),
    from: time.optional().describe("From this time on. Default: 24 hours before `to`."),
    to: time.optional().describe("Before this time. Default: now."),
    step: z
      .enum(Object.keys(stepNames) as [StepName, ...StepName[]])
      .optional()
      .describe("Default: `minute` up to 24 hours, `hour` up to 31 days, else `day`. Days begin at midnight UTC."),
    source: z.string().optional().describe("Only this source, for series of sources."),
    route: z.string().optional().describe("Only this route, for series of routes."),
  }),
  answers: { 200: { text: "The series.", schema: seriesSchema } },
} as const;

const quality = {
  method: "GET",
  path: "/v1/quality",
  name: "getQuality",
  scope: "read",
  summary: "How many messages arrived, what failed and why, and how long they took",
  description:
    "Counts the messages that were sent in the range, and which statuses they reached in it. Without `route` and `reference` these are estimates at the beginning of the range: messages sent before it are left out by their time to the status. With `route` or `reference` the relay counts stored events, which takes about a second per million and reaches back to `retention.events`.",
  query: z.strictObject({
    from: time.optional().describe("Messages sent from this time on. Default: 24 hours before `to`."),
    to: time.optional().describe("Statuses received before this time. Default: now."),
    route: z.string().optional().describe("Only events for this route."),
    reference: z.string().min(1).max(maxIdLength).optional().describe("Only messages whose reference begins with it."),
  }),
  answers: { 200: { text: "The sums.", schema: qualitySchema } },
} as const;

const dayMs = 86_400_000;
/** Events that a quality by route or reference reads: the page waits for them, some 50 ms on the embedded engine. */
const mostEvents = 15_000;

function badParameter(path: string, message: string): RelayError {
  return new RelayError("bad_request", `${path}: ${message}`, [{ path, message }]);
}

/** `GET /v1/series` and `GET /v1/quality`. */
export function addHistoryRoutes(app: FastifyInstance, port: HistoryPort, allow: Allow): void {
  addEndpoint(app, allow, series, async ({ query: { to, from, ...given } }) => {
    const now = port.now();
    refuseReversed(from, to ?? now);
    const { name, by } = given;
    const keys = keysOf(name);
    if (by !== undefined && !keys.includes(by)) {
      throw badParameter("by", keys.length === 0 ? `${name} has nothing to split it by` : `must be one of ${keys.join(", ")} for ${name}`);
    }
    const query = seriesQuery({ ...given, from, to }, now);
    const steps = (query.to - query.from) / query.step / 1000;
    if (steps > mostSteps) throw badParameter("step", `gives ${steps} values; the most are ${mostSteps}`);
    return toAnswer(seriesSchema, await port.series(query));
  });

  addEndpoint(app, allow, quality, async ({ query: { to = port.now(), from = to - dayMs, route, reference } }) => {
    refuseReversed(from, to);
    return toAnswer(qualitySchema, await port.quality({ from, to, route, reference, most: mostEvents }));
  });
}

function refuseReversed(from: number | undefined, to: number): void {
  if (from !== undefined && from >= to) throw badParameter("from", "must be before to");
}
