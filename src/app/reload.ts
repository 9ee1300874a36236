import { changedPaths, SettingsError } from "../config/fault.ts";
import { keptAfterReload, restartParts, type Settings } from "../config/schema.ts";
import { inboundSecrets } from "../config/sources.ts";
import type { ReloadView } from "../model/answers/relay.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { runInTurns, type Steps } from "../model/steps.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";

export interface RereadSettings {
  readonly settings: Settings;
  /** Variables of the env file that have another value in the process environment, which wins. */
  readonly overridden: readonly string[];
}

interface Parts {
  /** The path of the settings file. */
  readonly file: string | null;
  readonly initial: Settings;
  readonly current: () => Settings;
  /** Puts the settings into effect, except for {@link restartParts}. */
  readonly apply: (next: Settings) => Steps<void>;
  /** When a secret last verified an event of a source: see `accept.ts`. */
  readonly lastUse: (source: string, secret: string) => number | undefined;
  readonly now: () => number;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, "reloadSuccess" | "reloadTimestamp">;
}

export type Reloading = ReturnType<typeof createReloading>;

/**
 * Reloads the settings, and reports each result in the log, the metrics, `/readyz` and
 * `/v1/reload`.
 */
export function createReloading({
  file,
  initial,
  current,
  apply,
  lastUse,
  now,
  log,
  metrics,
}: Parts) {
  const fixedPart = (settings: Settings) =>
    Object.fromEntries(restartParts.map((section) => [section, settings[section]]));
  const startedAt = now();
  let last: ReloadView = {
    result: "applied",
    trigger: "start",
    at: startedAt,
    file,
    loadedAt: startedAt,
    changed: [],
    needRestart: [],
    overridden: [],
    dropped: [],
    faults: [],
  };
  let running: Promise<unknown> = Promise.resolve();
  let closed = false;
  observe();

  function observe(): void {
    metrics.reloadSuccess.set(last.result === "applied" ? 1 : 0);
    metrics.reloadTimestamp.set(last.loadedAt / 1000);
  }

  function* applying(
    { settings: next, overridden }: RereadSettings,
    trigger: ReloadView["trigger"],
  ): Steps<ReloadView> {
    yield;
    const changed = changedPaths(current(), next);
    yield;
    const at = now();
    const dropped = droppedSecrets(current(), next, lastUse, at);
    yield* apply(next);
    // Compared with the start, so that a later reload still names what the restart is needed for.
    const needRestart = changedPaths(keptAfterReload(initial, next), fixedPart(next));
    return {
      result: "applied",
      trigger,
      at,
      file,
      loadedAt: at,
      changed,
      needRestart,
      overridden,
      dropped,
      faults: [],
    };
  }

  function refused(error: unknown, trigger: ReloadView["trigger"]): ReloadView {
    const faults =
      error instanceof SettingsError
        ? error.faults
        : [{ path: "", message: `a fault of the relay: ${(error as Error).message}`, source: "" }];
    return { ...last, result: "refused", trigger, at: now(), changed: [], dropped: [], faults };
  }

  /** Never throws. */
  async function reloadOnce(
    read: () => MaybePromise<RereadSettings>,
    trigger: ReloadView["trigger"],
  ): Promise<ReloadView> {
    if (closed) return last;
    try {
      last = await runInTurns(applying(await read(), trigger));
      const { changed, needRestart, overridden } = last;
      log.info({ trigger, changed, needRestart, overridden }, "settings reloaded");
      if (last.dropped.length > 0)
        log.warn(
          { dropped: last.dropped },
          "removed a secret that verified an event within the last hour",
        );
    } catch (error) {
      last = refused(error, trigger);
      const err = error instanceof SettingsError ? {} : { err: error };
      log.error(
        { trigger, faults: last.faults, ...err },
        "settings not reloaded; those before stay in effect",
      );
    }
    observe();
    return last;
  }

  return {
    /**
     * Applies what `read` returns, or reports why not. One reload at a time, in order; others are
     * served between its steps.
     */
    reload(
      read: () => MaybePromise<RereadSettings>,
      trigger: ReloadView["trigger"],
    ): Promise<ReloadView> {
      const one = running.then(() => reloadOnce(read, trigger));
      running = one;
      return one;
    },
    /** Starts no more reloads, and waits for those that began. */
    close(): Promise<unknown> {
      closed = true;
      return running;
    },
    last: () => last,
    /** For `/readyz`, which needs no token: times, a number and paths. */
    status: () => ({
      loadedAt: new Date(last.loadedAt).toISOString(),
      refusedAt: last.result === "refused" ? new Date(last.at).toISOString() : null,
      faults: last.faults.length,
      needRestart: last.needRestart,
    }),
  };
}

/**
 * A secret that verified an event so lately is probably still in use: the service's next webhook
 * with it gets 401.
 */
const inUseMs = 3_600_000;

function droppedSecrets(
  before: Settings,
  after: Settings,
  lastUse: Parts["lastUse"],
  now: number,
): ReloadView["dropped"] {
  const kept = new Set(
    inboundSecrets(after).map(({ source, secret }) => `${source} ${secret.fingerprint()}`),
  );
  return inboundSecrets(before).flatMap(({ source, secret: each }) => {
    const secret = each.fingerprint();
    const lastAt = lastUse(source, secret) ?? 0;
    return kept.has(`${source} ${secret}`) || now - lastAt > inUseMs
      ? []
      : [{ source, secret, lastAt }];
  });
}
