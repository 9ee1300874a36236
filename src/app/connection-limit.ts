import { readdirSync, readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Observed } from "./observe.ts";

/** Most descriptors that are kept for the store, destinations and files; never over half. */
const mostKept = 1_024;
const logEveryMs = 60_000;

/**
 * Without a free descriptor, new connections are reset, and Node reports nothing. A limit below
 * that keeps descriptors for the store and the destinations, and Node reports what exceeds it.
 */
export function limitConnections(
  server: Server,
  { log, metrics }: Pick<Observed, "log" | "metrics">,
  free = freeDescriptors(),
): void {
  server.maxConnections = Math.floor(Math.max(free / 2, free - mostKept));
  let refused = 0;
  let loggedAt = Number.NEGATIVE_INFINITY;
  server.on("drop", () => {
    metrics.connectionsRefused.inc();
    refused += 1;
    if (performance.now() < loggedAt + logEveryMs) return;
    loggedAt = performance.now();
    log.warn(
      { refused, limit: server.maxConnections },
      "connections are refused: too many are open. Raise the limit of open files (LimitNOFILE, ulimit -n)",
    );
    refused = 0;
  });
}

/** Of this process, as its limit of open files allows. Infinite where Linux does not say it. */
function freeDescriptors(): number {
  try {
    const [, limit] =
      /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return limit === undefined
      ? Number.POSITIVE_INFINITY
      : Number(limit) - readdirSync("/proc/self/fd").length;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
