import type { FastifyInstance } from "fastify";
import { type OverviewView, overviewSchema } from "../model/overview.ts";
import { toAnswer } from "../model/view.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";

export interface OverviewPort {
  read(): Promise<OverviewView>;
}

const overview = {
  method: "GET",
  path: "/v1/overview",
  name: "getOverview",
  scope: "read",
  summary: "What needs action, the figures of the last hour, and the state of each destination",
  description: "`GET /v1/live` sends it whenever it changes. Counts of deliveries are at most five seconds old.",
  answers: { 200: { text: "The facts of this moment.", schema: overviewSchema } },
} as const;

/** `GET /v1/overview`. */
export function addOverviewRoute(app: FastifyInstance, port: OverviewPort, allow: Allow): void {
  addEndpoint(app, allow, overview, async () => toAnswer(overviewSchema, await port.read()));
}
