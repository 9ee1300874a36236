import type { IncomingMessage } from "node:http";
import type { onResponseHookHandler } from "fastify";
import type { BadTokenHook, RevealedHook } from "../control/auth.ts";
import type { FailedStage, LaneHooks } from "../deliver/decide.ts";
import type { Clock } from "../model/clock.ts";
import { faultText } from "../model/mask.ts";
import type { Metrics } from "../observe/metrics.ts";
import { createFailureLimit } from "../receive/client-address.ts";
import type { ReceiverHooks } from "../receive/receiver.ts";
import { type CallOperation, type CallOutcome, capOf } from "../service/endpoints.ts";
import type { LimiterHooks } from "../service/limits/limiter.ts";
import type { StopReason } from "../service/limits/stops.ts";
import type { Store } from "../store/create-store.ts";
import { type Rules, type StoreHooks, StoreLost, StoreUnavailable } from "../store/port.ts";
import type { Observed } from "./observe.ts";

type Watchers = Pick<Observed, "log" | "privacy" | "metrics">;

interface ReceiverWatchers extends Watchers {
  readonly store: Pick<Store, "noteAcknowledged">;
  readonly clock: Pick<Clock, "now">;
  readonly refused: (source: string) => void;
  readonly handshake: (source: string) => void;
}

export function receiverHooks({
  log,
  privacy,
  metrics,
  store,
  clock,
  refused,
  handshake,
}: ReceiverWatchers): ReceiverHooks {
  return {
    received(source, outcome) {
      metrics.requests.inc({ source, outcome });
      if (outcome === "handshake") handshake(source);
    },
    ended(source, status, tookMs) {
      metrics.requestSeconds.observe({ source, status: statusClass(status) }, tookMs / 1000);
      if (status >= 200 && status < 300) store.noteAcknowledged(tookMs, clock.now());
    },
    refused(source, reason, address) {
      refused(source);
      if (address !== null) log.warn({ source, reason, address }, "bad signature");
    },
    quarantined: ({ source, error, body, disposition = "quarantined" }) =>
      log.warn({ source, error: privacy.text(error), size: body.length }, disposition),
    failed: (source, error) => log.error({ err: error, source }, "a webhook request failed"),
  };
}

/** A class of HTTP statuses, as a label. 0: the client left before it got an answer. */
const statusClass = (status: number): string =>
  status === 0 ? "none" : `${Math.floor(status / 100)}xx`;

/**
 * Measures every request except webhooks. An endpoint is named as in `/v1/openapi.json`, a page by
 * its path.
 */
export function apiHook(metrics: Pick<Metrics, "apiSeconds">): onResponseHookHandler {
  return ({ is404, routeOptions: { config, url = "-" } }, reply, done) => {
    const endpoint = is404 ? "-" : (config.endpoint?.name ?? url);
    metrics.apiSeconds.observe(
      { endpoint, status: statusClass(reply.statusCode) },
      reply.elapsedTime / 1000,
    );
    done();
  };
}

/** Limits bad tokens like bad signatures. */
export function badTokenHook(
  { settings, log, metrics }: Observed,
  clock: Pick<Clock, "now">,
  address: (request: IncomingMessage) => string,
): BadTokenHook {
  const failures = createFailureLimit(() => settings().control.badTokenLimit);
  return (reason, request) => {
    const from = address(request);
    const { waitSeconds, isLogged } = failures.count(from, clock.now());
    metrics.badTokens.inc({ reason });
    if (isLogged) log.warn({ reason, address: from }, "bad token");
    return waitSeconds === null ? null : waitSeconds * 1000;
  };
}

/** A parameter may be a wamid or a phone number, so the line masks it as all lines do. */
export function revealedHook({ log, privacy }: Watchers): RevealedHook {
  return (token, endpoint, parameters) => {
    const named = Object.entries(parameters).map(
      ([name, value]) => [name, privacy.text(String(value))] as const,
    );
    log.info(
      { token, endpoint, ...(named.length === 0 ? {} : { parameters: Object.fromEntries(named) }) },
      "personal data revealed",
    );
  };
}

type FailedEvent = Parameters<NonNullable<Rules["failed"]>>[1];

export function storeHooks(
  { log, privacy, health, metrics }: Observed,
  arriving: () => boolean,
): StoreHooks {
  let isStoring = true;
  return {
    arriving,
    committed(tookMs, writes) {
      if (!isStoring) {
        isStoring = true;
        log.info("storing works again");
        health.stored();
      }
      // A shared store has recovered once it is connected, before anything is written.
      if (writes === 0) return;
      metrics.commitSeconds.observe(tookMs / 1000);
      metrics.commitWrites.observe(writes);
    },
    failed(error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (isStoring)
        log.error({ err: error }, "events cannot be stored; answering 503 until they can");
      isStoring = false;
      // Masked, because `/readyz` needs no token.
      health.storeFailed({ text: privacy.text(reason), isLost: error instanceof StoreLost });
      metrics.storeFailures.inc();
    },
  };
}

export function planningFailed(
  { log, privacy, metrics }: Watchers,
  error: unknown,
  { event: kind, account, source }: FailedEvent,
): void {
  metrics.setAside.inc({ stage: "plan" });
  log.error(
    { kind: privacy.id("kind", kind), account, source, stage: "plan", ...faultOf(error) },
    "planning an event failed; it is set aside and goes to no route",
  );
}

/**
 * What is logged of an exception about one event: its text may quote the event, and its stack
 * begins with the text.
 */
function faultOf(error: unknown): { fault: string; stack: readonly string[] } {
  if (!(error instanceof Error))
    return { fault: "something that is no Error was thrown", stack: [] };
  const stack = (error.stack ?? "").split("\n").filter((line) => line.startsWith("    at "));
  return { fault: faultText(error), stack: stack.slice(0, 5).map((line) => line.trim()) };
}

const failedTexts = {
  compose: "a delivery cannot be composed and is a dead letter; retry it once the cause is gone",
  send: "sending a delivery failed inside the relay",
  report: "an attempt cannot be reported",
  settle: "the result of an attempt cannot be stored; the delivery is set aside as a dead letter",
} as const satisfies Record<FailedStage, string>;

/** How long the same fault of the store is not logged again for a route, in milliseconds. */
const repeatMs = 60_000;

const outcomes = {
  delivered: ["info", "delivered"],
  retry: ["warn", "retry"],
  dead: ["error", "dead"],
  stop: ["error", "stopped"],
  interrupted: ["info", "handed back"],
} as const;

export function laneHooks(
  { log, privacy, metrics }: Watchers,
  { now }: Pick<Clock, "now">,
): LaneHooks {
  const logged = new Map<string, { readonly text: string; readonly at: number }>();

  /**
   * A lane tries each of its deliveries again twice a second: the fault is logged once a minute.
   */
  function isNews(route: string, error: unknown): boolean {
    // The store reports itself when it is unavailable.
    if (error instanceof StoreUnavailable) return false;
    const text = String(error);
    const last = logged.get(route);
    if (last?.text === text && now() - last.at < repeatMs) return false;
    logged.set(route, { text, at: now() });
    return true;
  }

  return {
    attempted({ delivery, outgoing, outcome, decision }) {
      const { route, kind, subject, receivedAt } = delivery;
      const { result, tookMs, response } = outcome;
      const lagMs = now() - receivedAt;
      metrics.attempts.inc({ route, outcome: decision.kind });
      metrics.attemptSeconds.observe({ route }, tookMs / 1000);
      // A replay delivers an event that may be days old.
      if (decision.kind === "delivered" && delivery.replays === 0)
        metrics.lag.observe(
          { route, attempt: delivery.attempts === 0 ? "first" : "later" },
          lagMs / 1000,
        );
      const [level, word] = outcomes[decision.kind];
      if (!log.isLevelEnabled(level)) return;
      log[level](
        {
          route,
          delivery: privacy.delivery(outgoing.id),
          event: privacy.id("event", delivery.eventId),
          // Identifies the event where its id is masked.
          seq: delivery.event,
          kind: privacy.kind(kind),
          ...(subject === null
            ? {}
            : subject.type === "message"
              ? { message: privacy.wamid(subject.key) }
              : { run: privacy.id("run", subject.key) }),
          ...(outgoing.traceparent === undefined
            ? {}
            : { trace: outgoing.traceparent.slice(3, 35) }),
          attempt: outgoing.attempt,
          outcome: word,
          ...(result.kind === "answered"
            ? { status: result.status }
            : result.kind === "failed"
              ? { error: result.error, detail: privacy.text(response?.toString("utf8") ?? "") }
              : {}),
          tookMs,
          lagMs,
          ...(decision.kind === "retry" ? { nextAt: new Date(decision.at).toISOString() } : {}),
          ...("reason" in decision ? { reason: decision.reason } : {}),
          ...(outgoing.replays > 0 ? { replay: true } : {}),
        },
        "attempt",
      );
    },
    breakerMoved: (route, state) => log.warn({ route, breaker: state }, `circuit breaker ${state}`),
    stopped: (route, reason) =>
      log.error(
        { route, reason },
        `destination stopped; its deliveries wait. Start it again with: wamid-relay resume ${route}`,
      ),
    paused: (route, until) =>
      log.warn(
        { route, until: new Date(until).toISOString() },
        `destination paused: it answered 429 with Retry-After. Start it earlier with: wamid-relay resume ${route}`,
      ),
    failed({ route, eventId }, stage, error) {
      metrics.setAside.inc({ stage });
      log.error(
        { route, event: privacy.id("event", eventId), stage, ...faultOf(error) },
        failedTexts[stage],
      );
    },
    storeFailed(route, error) {
      if (isNews(route, error))
        log.error(
          { err: error, route },
          "the store failed under a delivery; it will be tried again",
        );
    },
  };
}

const stopTexts: Record<StopReason, string> = {
  quota:
    "the account's monthly quota is used up; no call is made until the time given, then one call tries",
  "quota-messages":
    "a monthly quota is used up; no message is sent until the time given, then one send tries",
  "quota-runs":
    "a monthly quota is used up; no automation run is started until the time given, then one start tries",
  "quota-reads":
    "a monthly quota is used up; nothing is read until the time given, then one call tries",
  unauthenticated: "the service refuses the API key; one call tries from time to time",
  blocked: "the service has blocked this address because of bad keys; it is not asked for a minute",
};

interface LimiterListeners {
  readonly called: (account: string, operation: CallOperation, outcome: CallOutcome) => void;
  readonly keyRefused: (account: string) => void;
}

export function limiterHooks(
  account: string,
  { log, metrics }: Pick<Watchers, "log" | "metrics">,
  { called, keyRefused }: LimiterListeners,
): LimiterHooks {
  return {
    settled({ operation }, outcome) {
      called(account, operation, outcome);
      metrics.serviceCalls.inc({ account, outcome: outcome.type });
      if (outcome.type !== "rate-limited") return;
      const { cap, limit, retryAfterMs } = outcome;
      log.warn(
        { account, cap: cap ?? capOf(operation), limit, retryAfterMs },
        "the service says a cap is reached: others use the account too",
      );
    },
    refused: () => metrics.serviceCalls.inc({ account, outcome: "refused" }),
    stopped(reason, until, resource) {
      log.error(
        {
          account,
          reason,
          ...(resource === null ? {} : { resource }),
          until: new Date(until).toISOString(),
        },
        stopTexts[reason],
      );
      if (reason === "unauthenticated") keyRefused(account);
    },
  };
}
