import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { addEndpoints } from "../control/endpoint.ts";
import { createHttp } from "../control/http.ts";
import { createDiagnosis, storedBreakers } from "../inspect/diagnosis.ts";
import { createReadHandlers } from "../inspect/handlers.ts";
import { createOverview } from "../inspect/overview.ts";
import { createInstance } from "./engine.ts";
import { openStoreForReading } from "./open-store.ts";

/** The settings that reading needs. */
export type ReadingSettings = Pick<Settings, "storage" | "routes" | "sources" | "accounts">;

/**
 * The reading part of the control API over a store, for commands: without socket and token, whether
 * relays run or not. Throws `StoreRefused` when the store cannot be opened. `failed` receives the
 * cause of an answer 500.
 */
export async function createReadingApi(
  settings: ReadingSettings,
  failed: (error: unknown) => void,
): Promise<{ readonly http: FastifyInstance; close(): Promise<void> }> {
  const { storage, routes, accounts } = settings;
  const { read, inspecting, now, notesOf, quotaStops, database, close } =
    await openStoreForReading(storage);
  const breakers = () => storedBreakers(routes, notesOf, now());
  const http = createHttp(null, failed);
  const noToken = () => async () => {};
  const instance = createInstance(now());
  const { startedAt } = instance;
  const overview = createOverview({
    relay: { ...instance, storage: storage.driver },
    now,
    settings: () => settings,
    diagnose: createDiagnosis({
      startedAt,
      now,
      settings: () => settings,
      backlog: () => read.backlog(),
      quarantine: () => read.quarantine(),
      lanes: () => new Map(),
      breakers,
      alarms: () => [],
      database,
      stops: async () => {
        const found = Object.entries(accounts).map(([name, { baseUrl, plan }]) =>
          baseUrl === undefined ? [] : quotaStops(name, baseUrl, plan),
        );
        return (await Promise.all(found)).flat();
      },
      unreachable: () => [],
      storeFailure: () => null,
      backupFailure: () => null,
      reload: () => ({ result: "applied", at: startedAt, faults: [] }),
    }),
    lanes: () => new Map(),
    hasOtherWorkers: () => true,
    read,
  });
  addEndpoints(http, noToken, {
    ...createReadHandlers({
      read,
      browse: read,
      inspecting,
      now,
      breakers,
      isRunning: false,
      settings: () => settings,
    }),
    getOverview: overview,
  });
  return {
    http,
    async close() {
      await http.close();
      await close();
    },
  };
}
