import type { Settings } from "../config/schema.ts";
import { systemClock } from "../model/clock.ts";
import { createRedactor } from "../model/redact.ts";
import { relayVersion } from "../model/version.ts";
import { createHealth } from "../observe/health.ts";
import { createLogger, createPrivacy, type Logger, type Privacy } from "../observe/logger.ts";
import { createMetrics } from "../observe/metrics.ts";
import { createInstance, type Run } from "./engine.ts";
import type { Tracing } from "./tracing.ts";

export type Observed = Awaited<ReturnType<typeof observe>>;

/** The first phase: settings, log, metrics and traces, to which all later parts report. */
export async function observe(run: Run) {
  const { settings, log: stream, dispatch, cleanup } = run;
  const instance = createInstance((run.clock ?? systemClock).now());
  const redactor = createRedactor(settings);
  const log = createLogger(settings.log, stream, redactor);
  const privacy = createPrivacy(settings.log.pii, redactor);
  const tracing = dispatch ? await openTracing(settings.traces, log, privacy) : null;
  if (tracing !== null) cleanup.defer(tracing.close);
  const live = createLiveSettings(settings);
  return {
    run,
    live,
    settings: live.current,
    instance,
    redactor,
    log,
    privacy,
    tracing,
    health: createHealth(),
    metrics: createMetrics({
      version: instance.version,
      node: process.versions.node,
      storage: settings.storage.driver,
    }),
  };
}

/** Null without an endpoint: then nothing of OpenTelemetry is loaded. */
async function openTracing(
  settings: Settings["traces"],
  log: Logger,
  privacy: Privacy,
): Promise<Tracing | null> {
  const { endpoint = "" } = settings;
  if (endpoint === "") return null;
  const { createTracing } = await import("./tracing.ts");
  return createTracing({
    settings: { ...settings, endpoint },
    version: relayVersion(),
    log,
    privacy,
  });
}

/**
 * The settings in effect. `apply` hands new ones to the parts that follow, in the order in which
 * the parts were created.
 */
export function createLiveSettings(initial: Settings) {
  let settings = initial;
  const followers: ((next: Settings) => void)[] = [];
  const follow = (take: (next: Settings) => void): void => void followers.push(take);

  return {
    /** Those of the start, of which a part stays in effect until a restart. */
    initial,
    current: () => settings,
    follow,
    /** What `make` returns for the settings in effect, made once for each. */
    derive<Made>(make: (settings: Settings) => Made): () => Made {
      let made = make(settings);
      follow((next) => {
        made = make(next);
      });
      return () => made;
    },
    apply(next: Settings): void {
      settings = next;
      for (const take of followers) take(next);
    },
  };
}
