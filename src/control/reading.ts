import type { FastifyInstance } from "fastify";
import { addDeliveriesRoute, type DeliveriesPort } from "./deliveries.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { addEventRoutes, type EventsPort } from "./events.ts";
import { addTrackedRoutes, type TrackedReading } from "./messages.ts";

/** Reads a store without writing, in a relay or beside a running one. */
export interface Reading extends EventsPort, DeliveriesPort, TrackedReading {
  stats(): Promise<unknown>;
}

const stats = {
  method: "GET",
  path: "/v1/stats",
  name: "getStats",
  scope: "read",
  summary: "Sums of events, deliveries and attempts",
  description: "Counts every row, which takes about a second per million events.",
  answers: { 200: "The sums." },
} as const;

/** The lists and details of `/v1`, and `GET /v1/stats`. */
export function addReadingRoutes(app: FastifyInstance, reading: Reading, allow: Allow): void {
  addEventRoutes(app, reading, allow);
  addDeliveriesRoute(app, reading, allow);
  addTrackedRoutes(app, reading, allow);
  addEndpoint(app, allow, stats, async () => reading.stats());
}
