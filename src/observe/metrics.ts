import { setImmediate as nextTurn } from "node:timers/promises";
import { collectDefaultMetrics, Registry } from "@prometheus-io/client";
import { createGauges, createMaker, type Gauges, type Maker } from "./gauges.ts";

/** What runs: the labels of `relay_build_info`. */
interface BuildInfo {
  readonly version: string;
  readonly node: string;
  readonly storage: "sqlite" | "postgres";
}

export type Metrics = ReturnType<typeof createMetrics>;

/**
 * With a thousand routes, rendering takes a tenth of a second: after this many ms other work goes
 * on.
 */
const sliceMs = 5;
const seconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const untilADay = [...seconds, 60, 300, 3600, 86400];
const writes = [1, 2, 5, 10, 25, 50, 100, 250, 500];

let ofProcess: Registry | null = null;

/** Node's own metrics, once for a process: their timers and observers never end. */
function nodeMetrics(): Registry {
  if (ofProcess === null) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}

const countsOfRequests = ({ counter, histogram }: Maker) => ({
  requestSeconds: histogram(
    "relay_webhook_request_seconds",
    "From the headers of a webhook request to the end of its answer. status is a class such as 2xx, or none without an answer.",
    seconds,
    ["source", "status"],
  ),
  apiSeconds: histogram(
    "relay_api_request_seconds",
    "From the headers of any other request to the end of its answer. endpoint is an operation of the OpenAPI document or a path; - for an unknown one. A stream counts when it ends.",
    seconds,
    ["endpoint", "status"],
  ),
  requests: counter(
    "relay_webhook_requests_total",
    "Webhook requests by outcome. source is - for paths that name none.",
    ["source", "outcome"],
  ),
  connectionsRefused: counter(
    "relay_connections_refused_total",
    "Connections to the public port that were closed at once: the limit of open files allows no more.",
  ),
  dispositions: counter(
    "relay_events_total",
    "Events by their first disposition. released counts bodies that left quarantine.",
    ["source", "disposition"],
  ),
  secretUses: counter(
    "relay_secret_uses_total",
    "Verified events by the fingerprint of the secret.",
    ["source", "secret"],
  ),
  setAside: counter(
    "relay_set_aside_total",
    "Events (stage plan) and deliveries (compose, send, report, settle) on which the relay itself failed. Alert on any.",
    ["stage"],
  ),
});

const countsOfDeliveries = ({ counter, histogram }: Maker) => ({
  attempts: counter("relay_delivery_attempts_total", "Attempts to deliver, by outcome.", [
    "route",
    "outcome",
  ]),
  attemptSeconds: histogram("relay_delivery_attempt_seconds", "Duration of an attempt.", seconds, [
    "route",
  ]),
  lag: histogram(
    "relay_delivery_lag_seconds",
    "From receipt of an event to the answer that ended its delivery, also over restarts. attempt is first or later. Without replays.",
    untilADay,
    ["route", "attempt"],
  ),
});

const countsOfStore = ({ counter, gauge, histogram }: Maker) => ({
  commitSeconds: histogram(
    "relay_commit_seconds",
    "Duration of a transaction, with its wait for the disk or the server.",
    seconds,
  ),
  commitWrites: histogram("relay_commit_writes", "Writes in one transaction.", writes),
  storeFailures: counter("relay_store_failures_total", "Transactions that failed."),
  deleted: counter(
    "relay_retention_deleted_total",
    "Rows that retention deleted: events, deliveries, messages.",
    ["what"],
  ),

  backup: {
    success: gauge(
      "relay_backup_last_success_timestamp_seconds",
      "Time of the last good scheduled backup, in Unix seconds. 0: none.",
      "max",
    ),
    seconds: gauge(
      "relay_backup_duration_seconds",
      "Duration of the last scheduled backup, with its checks.",
      "max",
    ),
    bytes: gauge("relay_backup_size_bytes", "Size of the last scheduled backup.", "max"),
    failures: counter(
      "relay_backup_failures_total",
      "Scheduled backups that failed, or whose sums do not match.",
    ),
  },
});

const countsOfControl = ({ counter, gauge }: Maker) => ({
  reloadSuccess: gauge(
    "relay_settings_reload_success",
    "1: the last reload of the settings was applied. 0: it was refused.",
    "min",
  ),
  reloadTimestamp: gauge(
    "relay_settings_reload_timestamp_seconds",
    "Time at which the settings in effect were read, in Unix seconds.",
    "min",
  ),

  badTokens: counter(
    "relay_bad_tokens_total",
    "Requests to the control API with an unknown token, or with none (missing).",
    ["reason"],
  ),
  guesses: counter(
    "relay_phone_guesses_total",
    "Searches for a phone number by a token without the scope pii: found, missed, or refused by the limit.",
    ["token", "result"],
  ),
});

const countsOfService = ({ counter, gauge }: Maker) => ({
  sends: counter(
    "relay_sends_total",
    "Calls that send a message or start a run: done, not-done (certainly not sent) or unknown.",
    ["account", "kind", "outcome"],
  ),
  serviceCalls: counter(
    "relay_service_calls_total",
    "Calls to the messaging service, by outcome.",
    ["account", "outcome"],
  ),

  reconcile: {
    polls: counter(
      "relay_reconcile_polls_total",
      "Polls of messages: changed, unchanged, missing (unknown to the service) or failed.",
      ["account", "outcome"],
    ),
    postponed: gauge(
      "relay_reconcile_postponed",
      "Polls that were due at the last pass and are postponed, so that the monthly quota lasts.",
      "max",
      ["account"],
    ),
    faulty: gauge(
      "relay_polls_faulty",
      "1 while the service answers every poll with 404, another 4xx, or something unreadable. Absent before the first poll.",
      "max",
      ["account"],
    ),
    missed: counter(
      "relay_webhooks_missed_total",
      "Statuses that polls found and whose webhook did not arrive within two minutes.",
      ["account"],
    ),
    silence: gauge("relay_silence", "1 while webhooks are missing.", "max", ["account"]),
  },
  hydration: {
    settled: counter(
      "relay_hydrations_total",
      "Truncated events by how their hydration ended: done or given-up.",
      ["account", "state"],
    ),
    passes: counter("relay_hydration_passes_total", "Hydration passes that ended.", ["account"]),
    polls: counter("relay_hydration_polls_total", "Messages polled because of truncated events.", [
      "account",
    ]),
    found: counter(
      "relay_hydration_found_total",
      "Statuses found by polls because of truncated events.",
      ["account"],
    ),
  },
});

/**
 * The relay's metrics, in their own registry. Labels are few, and never hold a wamid or a phone
 * number.
 */
export function createMetrics(build: BuildInfo) {
  const registry = new Registry();
  const ofNode = nodeMetrics();
  const maker = createMaker(registry);
  const counts = {
    ...countsOfRequests(maker),
    ...countsOfDeliveries(maker),
    ...countsOfStore(maker),
    ...countsOfControl(maker),
    ...countsOfService(maker),
  };
  maker
    .gauge(
      "relay_build_info",
      "Always 1. The labels have the versions of the relay and of Node, and the engine.",
      "count by (version)",
      ["version", "node", "storage"],
    )
    .set({ ...build }, 1);

  const observe = createGauges(maker);

  return {
    ...counts,
    described: maker.described,
    contentType: registry.contentType,
    async text(gauges: Gauges): Promise<string> {
      observe(gauges);
      const texts: string[] = [];
      let startedAt = performance.now();
      for (const from of [ofNode, registry]) {
        for (const { name } of from.getMetricsAsArray()) {
          texts.push(await from.getSingleMetricAsString(name));
          if (performance.now() - startedAt < sliceMs) continue;
          await nextTurn();
          startedAt = performance.now();
        }
      }
      return `${texts.join("\n\n")}\n`;
    },
  };
}
