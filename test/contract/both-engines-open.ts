import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Rules } from "../../src/store/rules.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { Engine } from "./both-engines-steps.ts";
import { contractOf } from "./contract-store.ts";

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
