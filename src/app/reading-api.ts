import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { addAuditRoute } from "../control/audit.ts";
import { addExplainRoute } from "../control/explain.ts";
import { createHttp } from "../control/http.ts";
import { addReadingRoutes } from "../control/reading.ts";
import { createAuditing } from "./auditing.ts";
import { createExplaining } from "./explaining.ts";
import { openStoreForReading } from "./open-store.ts";
import { createReadingPort } from "./reading.ts";

/**
 * The looking half of the control API straight from a store, for commands: no socket, no token, beside relays that run
 * or without any. Throws `StoreRefused` when the store cannot be had; `failed` is told what lies behind an answer 500.
 */
export async function createReadingApi(
  { storage, routes }: Pick<Settings, "storage" | "routes">,
  failed: (error: unknown) => void,
): Promise<{ readonly http: FastifyInstance; close(): Promise<void> }> {
  const { read, inspecting, now, breakersOf, close } = await openStoreForReading(storage);
  const http = createHttp(null, failed);
  const anybody = () => async () => {};
  addReadingRoutes(http, createReadingPort(read, inspecting), anybody);
  // Of a file these are the pauses: which breakers are open only its relay knows.
  addExplainRoute(http, createExplaining({ read, now, breakers: () => breakersOf(routes) }), anybody);
  addAuditRoute(http, createAuditing({ inspecting, now, isRunning: false }), anybody);
  return {
    http,
    async close() {
      await http.close();
      await close();
    },
  };
}
