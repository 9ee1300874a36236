import { changedPaths } from "../config/changes.ts";
import { SettingsError } from "../config/fault.ts";
import { restartParts, type Settings } from "../config/schema.ts";
import type { ReloadView } from "../model/answers.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";

/** The settings of the file, read just now. */
export interface RereadSettings {
  readonly settings: Settings;
  /** Variables of the env file that have another value in the process environment, which wins. */
  readonly overridden: readonly string[];
}

interface Parts {
  readonly initial: Settings;
  readonly current: () => Settings;
  /** Puts the settings into effect, except for {@link restartParts}. */
  readonly apply: (next: Settings) => void;
  readonly now: () => number;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "reloadSuccess" | "reloadTimestamp">;
}

interface Reloading {
  /** Applies what `read` returns, or reports why not. Never throws. */
  reload(read: () => RereadSettings, trigger: ReloadView["trigger"]): ReloadView;
  last(): ReloadView;
  /** For `/readyz`, which needs no token: times, a number and paths. */
  status(): SettingsStatus;
}

/** With times as ISO 8601. */
interface SettingsStatus {
  readonly loadedAt: string;
  /** Null: the last reload was applied. */
  readonly refusedAt: string | null;
  readonly faults: number;
  readonly needRestart: readonly string[];
}

/** Reloads the settings, and reports each result in the log, the metrics, `/readyz` and `/v1/reload`. */
export function createReloading({ initial, current, apply, now, log, metrics }: Parts): Reloading {
  const fixedPart = (settings: Settings) => Object.fromEntries(restartParts.map((section) => [section, settings[section]]));
  const startedAt = now();
  let last: ReloadView = {
    result: "applied",
    trigger: "start",
    at: startedAt,
    loadedAt: startedAt,
    changed: [],
    needRestart: [],
    overridden: [],
    faults: [],
  };
  observe();

  function observe(): void {
    metrics.reloadSuccess.set(last.result === "applied" ? 1 : 0);
    metrics.reloadTimestamp.set(last.loadedAt / 1000);
  }

  function applied({ settings: next, overridden }: RereadSettings, trigger: ReloadView["trigger"]): ReloadView {
    const changed = changedPaths(current(), next);
    apply(next);
    const at = now();
    // Compared with the start, so that a later reload still names what the restart is needed for.
    const needRestart = changedPaths(fixedPart(initial), fixedPart(next));
    return { result: "applied", trigger, at, loadedAt: at, changed, needRestart, overridden, faults: [] };
  }

  function refused(error: unknown, trigger: ReloadView["trigger"]): ReloadView {
    const faults =
      error instanceof SettingsError
        ? error.faults
        : [{ path: "", message: `a fault of the relay: ${(error as Error).message}`, source: "" }];
    return { ...last, result: "refused", trigger, at: now(), changed: [], faults };
  }

  return {
    reload(read, trigger) {
      try {
        last = applied(read(), trigger);
        const { changed, needRestart, overridden } = last;
        log.info({ trigger, changed, needRestart, overridden }, "settings reloaded");
      } catch (error) {
        last = refused(error, trigger);
        const err = error instanceof SettingsError ? {} : { err: error };
        log.error({ trigger, faults: last.faults, ...err }, "settings not reloaded; those before stay in effect");
      }
      observe();
      return last;
    },
    last: () => last,
    status: () => ({
      loadedAt: new Date(last.loadedAt).toISOString(),
      refusedAt: last.result === "refused" ? new Date(last.at).toISOString() : null,
      faults: last.faults.length,
      needRestart: last.needRestart,
    }),
  };
}
