import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis as Client } from "ioredis";
import type { Rules } from "../../src/store/rules.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import { acceptAndPlan } from "./accept-and-plan.ts";
import type { Engine } from "./both-engines-steps.ts";
import { contractOf } from "./contract-store.ts";
import { openRedisStore } from "./redis-queue.ts";

const quiet = { committed: () => {}, failed: () => {} };

export type OpenEngine = Engine & { end(): Promise<void> };

/** The embedded engine on the file at `path`. */
export function openEmbedded(path: string, rules: Rules): OpenEngine {
  const store = openSqliteStore(path, rules, quiet);
  const { settle, load } = contractOf({ store, read: store.look, snapshot: store.look });
  return {
    store: withoutLanes({ ...store, load }),
    settle,
    claim: () => Promise.resolve(),
    stats: store.inspecting.stats,
    end: store.close,
  };
}

/** Only the one store names lanes. */
function withoutLanes<T extends object>(store: T): T {
  const entries = Object.entries(store).map(([name, part]) => [
    name,
    typeof part === "function" ? async (...args: unknown[]) => bare(await part(...args)) : part,
  ]);
  return Object.fromEntries(entries) as T;
}

function bare(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(bare);
  if (answer === null || typeof answer !== "object") return answer;
  if ("lane" in answer) {
    const { lane: _lane, ...rest } = answer;
    return rest;
  }
  return "due" in answer ? { ...answer, due: bare(answer.due) } : answer;
}

/** The same on a file of its own, which is removed with its end. */
export function openEmbeddedAnew(rules: Rules): OpenEngine {
  const folder = mkdtempSync(join(tmpdir(), "embedded-engine-"));
  const engine = openEmbedded(join(folder, "relay.db"), rules);
  return {
    ...engine,
    async end() {
      await engine.end();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The distributed engine under a prefix. `plansLater`: one process accepts, and another plans. */
export function openDistributed(client: Client, prefix: string, rules: Rules, plansLater = false): OpenEngine {
  const link = { run: <T>(command: (redis: Client) => Promise<T>) => command(client) };
  const store = openRedisStore(link, prefix, rules, quiet, plansLater);
  const accept = plansLater ? acceptAndPlan(store, openRedisStore(link, prefix, rules, quiet)) : store.accept;
  return {
    store: { ...store, accept, expireParked: async (now, limit) => ({ concluded: await store.expireParked(now, limit), due: [] }) },
    settle: async (settlement) => (await store.settle(settlement)).released,
    claim: (route, now) => store.claim(route, { now, limit: 2, maxBytes: 1_000_000, leaseMs: 3_600_000, holder: "worker" }),
    stats: store.inspecting.stats,
    end: store.close,
  };
}
