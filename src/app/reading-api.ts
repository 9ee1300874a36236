import type { FastifyInstance } from "fastify";
import { addAuditRoute } from "../control/audit-route.ts";
import { addExplainRoute } from "../control/explain-route.ts";
import { createHttp } from "../control/http.ts";
import { addReadingRoutes } from "../control/reading-routes.ts";
import { openReader } from "../store/sqlite/reader.ts";
import { createAuditing } from "./auditing.ts";
import { createExplaining } from "./explaining.ts";
import { createReadingPort } from "./reading-port.ts";
import { systemClock } from "./system-clock.ts";

/**
 * The looking half of the control API straight from a store's file, for commands on the same machine: no
 * socket, no token, beside a relay that runs or without one. Throws `StoreRefused` when the file cannot be
 * had; `failed` is told what lies behind an answer 500.
 */
export function createReadingApi(
  storePath: string,
  failed: (error: unknown) => void,
): { readonly http: FastifyInstance; close(): Promise<void> } {
  const reader = openReader(storePath);
  const http = createHttp(null, failed);
  const anybody = async () => {};
  addReadingRoutes(http, createReadingPort(reader, reader.inspecting), anybody);
  addExplainRoute(http, createExplaining({ read: reader, now: systemClock.now, lanes: null }), anybody);
  addAuditRoute(http, createAuditing({ inspecting: reader.inspecting, now: systemClock.now, isRunning: false }), anybody);
  return {
    http,
    async close() {
      await http.close();
      await reader.close();
    },
  };
}
