import { createSupervisor } from "../../../src/app/supervise.ts";
import { createWatching } from "../../../src/app/watching.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { Attention } from "../../../src/model/overview.ts";
import { createLogger } from "../../../src/observe/logger.ts";
import { createMetrics } from "../../../src/observe/metrics.ts";
import type { ManualClock } from "../../harness/manual-clock.ts";

export const afterMs = 900_000;

/** A process that watches the accounts of these settings, and writes its log lines. */
export function createWatcher(parts: {
  readonly store: object;
  readonly clock: ManualClock;
  readonly settings: object;
  readonly level?: "error" | "info" | "silent";
  readonly write?: (line: string) => void;
  readonly limiterOf?: (account: string) => object | undefined;
  readonly attention?: () => readonly Attention[];
}) {
  const {
    store,
    clock,
    level = "info",
    write = () => {},
    limiterOf = () => undefined,
    attention = () => [],
  } = parts;
  const settings = parseSettings(JSON.stringify(parts.settings), "relay.yaml", {});
  const log = createLogger({ level, pii: "masked" }, { write });
  const watching = createWatching({
    store: store as Parameters<typeof createWatching>[0]["store"],
    settings: () => settings,
    services: { limiterOf: limiterOf as never },
    clock,
    supervise: createSupervisor({ clock, log }).supervise,
    log,
    metrics: createMetrics({ version: "0", node: "24", storage: "sqlite" }),
  });
  return { ...watching, start: () => watching.start(async () => ({ attention: attention() })) };
}
