import type { Settings } from "../../config/schema.ts";
import type { BreakerView } from "../../deliver/breaker.ts";
import type { RouteBacklog } from "../../store/delivery-views.ts";
import { isLocked } from "../../store/sqlite/file-lock.ts";
import { openReader, type StoreReader } from "../../store/sqlite/reader.ts";
import { StoreRefused } from "../../store/store-error.ts";
import { type Finding, fail, ok, spanText, warn } from "./finding.ts";

/** A delivery due for longer than this is not merely in a queue. */
const overdueMs = 15 * 60_000;

/** Opens the file for looking; a finding when that cannot be done. */
export function openStoreToCheck(path: string): {
  readonly reader: (StoreReader & { close(): void }) | null;
  readonly findings: Finding[];
} {
  try {
    const reader = openReader(path);
    return { reader, findings: [ok("schema", `version ${reader.file.schemaVersion()}`)] };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    return { reader: null, findings: [{ check: "store", level: "fail", message: error.message }] };
  }
}

export function checkHolder(path: string, reader: StoreReader): { readonly isHeld: boolean; readonly finding: Finding } {
  const held = isLocked(path);
  if (held === null) {
    return { isHeld: false, finding: warn("holder", `${path}.lock cannot be read`, "run doctor as the user of the relay") };
  }
  const last = reader.file.holder();
  return {
    isHeld: held,
    finding: ok("holder", held ? `held by ${last ?? "a relay"}` : `held by nobody${last === null ? "" : `; last by ${last}`}`),
  };
}

/** `deep`: has SQLite read the whole file. */
export function checkIntegrity(reader: StoreReader, deep: boolean): Finding {
  if (!deep) return ok("integrity", "not looked at; --deep reads the whole file");
  const damage = reader.file.findDamage();
  if (damage === null) return ok("integrity", "the whole file is in order");
  return fail("integrity", `the file is damaged: ${damage}`, "stop the relay, and restore a copy or use sqlite3's .recover");
}

/** Dead letters, what is overdue, stopped and paused destinations, and routes that have gone from the settings. */
export function judgeBacklog(
  backlog: readonly RouteBacklog[],
  routes: Settings["routes"],
  breakers: ReadonlyMap<string, BreakerView>,
  now: number,
): Finding[] {
  const names = new Set(routes.map(({ name }) => name));
  const found: Finding[] = [];
  let waiting = 0;
  for (const { route, waiting: due, held, dead, oldestDueAt, stopped } of backlog) {
    const open = due + held;
    waiting += open;
    if (!names.has(route)) {
      if (open > 0 && !route.startsWith("proxy:")) {
        found.push(
          warn(
            "backlog",
            `${open} deliveries wait for the route ${route}, which is not in the settings`,
            "put the route back, by its old name",
          ),
        );
      }
      continue;
    }
    if (dead > 0) {
      const todo = `wamid-relay deliveries list --state dead --route ${route}; then: wamid-relay replay --route ${route}`;
      found.push(warn("dead letters", `${dead} of ${route}`, todo));
    }
    if (stopped !== null) {
      found.push(
        fail("destination", `${route} is stopped (${stopped}); ${open} deliveries wait`, `wamid-relay resume ${route}, once it is back`),
      );
      continue;
    }
    const pausedUntil = breakers.get(route)?.pausedUntil ?? null;
    if (pausedUntil !== null && pausedUntil > now) {
      found.push(
        warn(
          "destination",
          `${route} is paused for another ${spanText(pausedUntil - now)}: it answered 429 with Retry-After; ${open} deliveries wait`,
          `wait, or start it now: wamid-relay resume ${route}`,
        ),
      );
    } else if (oldestDueAt !== null && now - oldestDueAt > overdueMs) {
      found.push(
        warn(
          "backlog",
          `${open} deliveries of ${route} wait, one has been due for ${spanText(now - oldestDueAt)}`,
          "does the relay run, and the destination answer in time?",
        ),
      );
    }
  }
  return [ok("backlog", `${waiting} deliveries wait`), ...found];
}

export function checkQuarantine(reader: StoreReader): Finding {
  const count = reader.file.quarantined();
  if (count === 0) return ok("quarantine", "empty");
  return warn(
    "quarantine",
    `${count} requests were signed rightly and are no valid events`,
    "wamid-relay events list --disposition quarantined",
  );
}
