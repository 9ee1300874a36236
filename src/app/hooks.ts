import type { IncomingMessage } from "node:http";
import type { BadTokenHook } from "../control/auth.ts";
import type { FailedStage, LaneHooks } from "../deliver/lane.ts";
import { maskText } from "../model/mask.ts";
import type { Health } from "../observe/health.ts";
import type { Logger, Privacy } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import { createFailureLimit } from "../receive/failure-limit.ts";
import type { ReceiverHooks } from "../receive/receiver.ts";
import type { CallOutcome, CallPriority } from "../service/admission.ts";
import type { StopReason } from "../service/limits/account.ts";
import type { LimiterHooks } from "../service/limits/limiter.ts";
import type { StoreHooks } from "../store/port.ts";

interface Watchers {
  readonly log: Logger;
  readonly privacy: Privacy;
  /** A function, because metrics read the parts that report to them. */
  readonly metrics: () => Metrics;
}

export function receiverHooks({
  log,
  privacy,
  metrics,
  refused,
}: Watchers & { readonly refused: (source: string) => void }): ReceiverHooks {
  return {
    received: (source, outcome) => metrics().requests.count(source, outcome),
    refused(source, reason, address) {
      refused(source);
      if (address !== null) log.warn({ source, reason, address }, "bad signature");
    },
    quarantined: ({ source, error, body }) => log.warn({ source, error: privacy.text(error), size: body.length }, "quarantined"),
    failed: (source, error) => log.error({ err: error, source }, "a webhook request failed"),
  };
}

export interface TokenWatchers extends Omit<Watchers, "privacy"> {
  readonly now: () => number;
  readonly address: (request: IncomingMessage) => string;
  readonly limit: () => number;
}

/** Counts bad tokens as bad signatures are counted. */
export function badTokenHook({ log, metrics, now, address, limit }: TokenWatchers): BadTokenHook {
  const failures = createFailureLimit(limit);
  return (reason, request) => {
    const from = address(request);
    const { waitSeconds, isLogged } = failures.count(from, now());
    metrics().badTokens.inc({ reason });
    if (isLogged) log.warn({ reason, address: from }, "bad token");
    return waitSeconds === null ? null : waitSeconds * 1000;
  };
}

interface StoreWatchers extends Watchers {
  readonly health: Health;
  readonly arriving: () => boolean;
}

export function storeHooks({ log, privacy, health, metrics, arriving }: StoreWatchers): StoreHooks {
  return {
    arriving,
    committed(tookMs, writes) {
      if (!health.storing()) log.info("storing works again");
      health.stored();
      // A shared store is well again by word of its connection, before anything is written.
      if (writes === 0) return;
      metrics().commitSeconds.observe(tookMs / 1000);
      metrics().commitWrites.observe(writes);
    },
    failed(error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (health.storing()) log.error({ err: error }, "events cannot be stored; answering 503 until they can");
      // `/readyz` shows it to anybody.
      health.storeFailed(privacy.text(reason));
      metrics().storeFailures.inc();
    },
  };
}

/** What is logged of an exception about one event: its text may quote the event, its stack begins with it. */
export function faultOf(error: unknown): { fault: string; stack: readonly string[] } {
  if (!(error instanceof Error)) return { fault: "something that is no Error was thrown", stack: [] };
  const stack = (error.stack ?? "").split("\n").filter((line) => line.startsWith("    at "));
  return { fault: maskText(error.message).slice(0, 300), stack: stack.slice(0, 5).map((line) => line.trim()) };
}

const failedTexts = {
  compose: "a delivery cannot be composed and is a dead letter; retry it once the cause is gone",
  send: "sending a delivery failed inside the relay",
  report: "an attempt cannot be reported",
  settle: "what came of an attempt cannot be stored; the delivery is set aside as a dead letter",
} as const satisfies Record<FailedStage, string>;

/** How long the same fault of the store under the same route stays unsaid, in milliseconds. */
const quietMs = 60_000;

const outcomes = { delivered: "delivered", retry: "retry", dead: "dead", stop: "stopped", again: "handed back" } as const;

export function laneHooks({ log, privacy, now, metrics }: Watchers & { readonly now: () => number }): LaneHooks {
  const saidAt = new Map<string, number>();

  /** A lane tries again twice a second, each of its deliveries for itself: said once, and again each minute. */
  function isNews(route: string, error: unknown): boolean {
    // That nothing can be stored is said by the store itself, for all.
    if (error instanceof Error && error.name === "StoreUnavailable") return false;
    const key = `${route} ${String(error)}`;
    const last = saidAt.get(key);
    if (last !== undefined && now() - last < quietMs) return false;
    // The oldest stand first: the map holds one minute of texts.
    for (const [text, at] of saidAt) {
      if (now() - at < quietMs) break;
      saidAt.delete(text);
    }
    saidAt.delete(key);
    saidAt.set(key, now());
    return true;
  }

  return {
    attempted({ delivery, outgoing, outcome, decision }) {
      const { route, kind, subject, receivedAt } = delivery;
      const { result, tookMs, response } = outcome;
      const lagMs = now() - receivedAt;
      const m = metrics();
      m.attempts.inc({ route, outcome: decision.kind });
      m.attemptSeconds.observe({ route }, tookMs / 1000);
      if (decision.kind === "delivered" && delivery.attempts === 0) m.lag.observe({ route }, lagMs / 1000);
      const level = decision.kind === "delivered" || decision.kind === "again" ? "info" : decision.kind === "retry" ? "warn" : "error";
      if (!log.isLevelEnabled(level)) return;
      log[level](
        {
          route,
          delivery: privacy.delivery(outgoing.id),
          event: privacy.id("event", delivery.eventId),
          // Finds the event where its id is masked.
          seq: delivery.event,
          kind: privacy.kind(kind),
          ...(subject === null
            ? {}
            : subject.type === "message"
              ? { message: privacy.wamid(subject.key) }
              : { run: privacy.id("run", subject.key) }),
          attempt: outgoing.attempt,
          outcome: outcomes[decision.kind],
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
      log.error({ route, reason }, `destination stopped; its deliveries wait. Start it again with: wamid-relay resume ${route}`),
    paused: (route, until) =>
      log.warn(
        { route, until: new Date(until).toISOString() },
        `destination paused: it answered 429 with Retry-After. Start it earlier with: wamid-relay resume ${route}`,
      ),
    failed({ route, eventId }, stage, error) {
      metrics().setAside.inc({ stage });
      log.error({ route, event: privacy.id("event", eventId), stage, ...faultOf(error) }, failedTexts[stage]);
    },
    storeFailed(route, error) {
      if (isNews(route, error)) log.error({ err: error, route }, "the store failed under a delivery; it will be tried again");
    },
  };
}

const stopTexts: Record<StopReason, string> = {
  quota: "the account's monthly quota is used up; no call is made until the time given, then one call tries",
  "quota-messages": "a monthly quota is used up; no message is sent until the time given, then one send tries",
  "quota-runs": "a monthly quota is used up; no automation run is started until the time given, then one start tries",
  "quota-contacts": "a monthly quota is used up; no contact is written until the time given, then one call tries",
  "quota-reads": "a monthly quota is used up; nothing is read until the time given, then one call tries",
  unauthenticated: "the service refuses the API key; one call tries from time to time",
  blocked: "the service has blocked this address because of bad keys; it is not asked for a minute",
};

export interface LimiterWatchers extends Omit<Watchers, "privacy"> {
  readonly called: (account: string, priority: CallPriority, outcome: CallOutcome) => void;
  readonly keyRefused: (account: string) => void;
}

/** What an account's limiter tells. */
export function limiterHooks(account: string, { log, metrics, called, keyRefused }: LimiterWatchers): LimiterHooks {
  return {
    settled(call, outcome) {
      called(account, call.priority, outcome);
      metrics().serviceCalls.inc({ account, outcome: outcome.type });
      if (outcome.type !== "rate-limited") return;
      const { cap, limit, retryAfterMs } = outcome;
      log.warn({ account, cap: cap ?? call.cap, limit, retryAfterMs }, "the service says a cap is reached: others use the account too");
    },
    refused: () => metrics().serviceCalls.inc({ account, outcome: "refused" }),
    stopped(reason, until, resource) {
      log.error({ account, reason, ...(resource === null ? {} : { resource }), until: new Date(until).toISOString() }, stopTexts[reason]);
      if (reason === "unauthenticated") keyRefused(account);
    },
  };
}
