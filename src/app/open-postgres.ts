import { createHash, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { lanesOf } from "../deliver/lane.ts";
import { createRouteLeases } from "../deliver/route-leases.ts";
import { createElapsed } from "../model/clock.ts";
import type { DatabaseFacts } from "../model/database.ts";
import type { Lease } from "../model/route-lease.ts";
import { relayVersion } from "../model/version.ts";
import type { StopView } from "../service/accounts.ts";
import { planCaps, planId } from "../service/limits/caps.ts";
import { quotaReasons } from "../service/limits/stops.ts";
import type { Plan } from "../service/settings.ts";
import {
  openPostgresStore,
  openPostgresForReading as openReading,
  readFactsAt,
} from "../store/postgres/open.ts";
import type { PostgresStorage } from "../store/settings.ts";
import type { Work } from "../store/sql/ops.ts";
import { storedStops } from "../store/work/budgets.ts";
import { notesOf } from "../store/work/state-rows.ts";
import type { Engine, OpenOptions } from "./engine.ts";

export const postgresSettings = ({ url, schema, tls }: PostgresStorage) => ({
  url: url.reveal(),
  schema,
  tls,
});

/** The store on PostgreSQL. Throws `StoreRefused` for what no waiting repairs. */
export async function openPostgres(
  storage: PostgresStorage,
  { role, instance = randomUUID(), rules, hooks, clock: given }: OpenOptions,
): Promise<Engine> {
  const held = new Map<string, Lease>();
  const presence = {
    id: instance,
    role,
    host: hostname(),
    pid: process.pid,
    version: relayVersion(),
  };
  const opened = await openPostgresStore(postgresSettings(storage), {
    rules,
    hooks,
    presence,
    held: () => held,
    clock: given,
  });
  const { store, clock, processes, database } = opened;
  const elapsed = createElapsed(Date.now, () => performance.now());
  return {
    store,
    clock,
    lanes: {
      ...lanesOf(store, clock, true),
      leases: (lanes) =>
        createRouteLeases(lanes, {
          worker: instance,
          store: store.leases,
          clock,
          elapsed,
          held,
          failed: hooks.failed,
        }),
    },
    processes,
    database,
    budgets: (account, baseUrl) => ({
      step: (request) => store.stepBudget(budgetPlace(account, baseUrl), request),
    }),
  };
}

export type ReadingEngine = Omit<
  Awaited<ReturnType<typeof openPostgresForReading>>,
  "look" | "processes" | "database"
> &
  Pick<Engine, "database">;

/**
 * Opens the database of relays for reading, as long as a command runs. Throws `StoreRefused` when
 * that fails.
 */
export async function openPostgresForReading(storage: PostgresStorage) {
  const opened = await openReading(postgresSettings(storage));
  const { look } = opened;
  return {
    ...opened,
    notesOf: (routes: readonly string[]) => look(notesOf(routes)),
    quotaStops: storedQuotaStops(look),
  };
}

/**
 * Of the server of a store, or of one to come. Throws `StoreUnavailable` when it does not answer.
 */
export const readServer = (storage: PostgresStorage): Promise<DatabaseFacts> =>
  readFactsAt(postgresSettings(storage));

/** An account at another base URL is another one. */
const budgetPlace = (account: string, baseUrl: string): string =>
  `${account}@${createHash("sha256").update(baseUrl).digest("hex").slice(0, 12)}`;

/** The quota stops of an account that processes share. */
function storedQuotaStops(look: <T>(work: Work<T>) => Promise<T>) {
  return async (account: string, baseUrl: string, plan: Plan): Promise<readonly StopView[]> => {
    const stored = await look(storedStops(budgetPlace(account, baseUrl)));
    if (stored?.plan !== planId(planCaps[plan])) return [];
    return quotaReasons.flatMap((reason) => {
      const stop = stored.stops[reason];
      if (stop === undefined) return [];
      return [
        {
          account,
          reason,
          resource: stop.resource,
          until: Math.max(stop.renewsAt ?? 0, stop.until),
        },
      ];
    });
  };
}
