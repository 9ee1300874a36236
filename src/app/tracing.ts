import { SpanKind } from "@opentelemetry/api";
import type { SendCaller, SendingPort } from "../control/sending.ts";
import type { LaneHooks } from "../deliver/decide.ts";
import type { PassTally } from "../hydrate/pass.ts";
import { RelayError } from "../model/errors.ts";
import type { ReceivedEvent } from "../model/event.ts";
import type { HydrationPass } from "../model/hydration.ts";
import type { Privacy } from "../observe/logger.ts";
import {
  createTraces,
  readTraceparent,
  type Traces,
  type TracesParts,
  traceparentOf,
} from "../observe/traces.ts";
import type { Polling } from "../service/polling.ts";
import type { AcceptOutcome } from "../store/port.ts";
import type { Accepting } from "./accept.ts";

export type Tracing = ReturnType<typeof createTracing>;

interface Spans {
  readonly traces: Traces;
  readonly privacy: Privacy;
}

/**
 * One span per stage. Each function wraps a part of the relay; without traces, the parts are used
 * as they are. Loaded only when an endpoint is configured.
 */
export function createTracing({ privacy, ...parts }: TracesParts & { readonly privacy: Privacy }) {
  const traces = createTraces({ ...parts, privacy });
  const spans = { traces, privacy };

  return {
    close: traces.close,
    /** Keeps the sender's `traceparent` with the event, and when its request began. */
    traced<E extends Pick<ReceivedEvent, "headers">>(
      event: E,
      traceparent: unknown,
      startedAt: number,
    ): E {
      const sender = readTraceparent(traceparent);
      const headers =
        sender === null ? event.headers : { ...event.headers, traceparent: traceparentOf(sender) };
      return { ...event, headers, startedAt };
    },
    accepting: (accepting: Accepting) => traceAccepting(accepting, spans),
    attempts: (hooks: LaneHooks) => traceAttempts(hooks, spans),
    polling: (polling: Polling, origin: "hydrate" | "reconcile") =>
      tracePolling(polling, origin, spans),
    sending: (sending: SendingPort) => traceSending(sending, spans),
    /** A hydration pass is over. It belongs to the trace of the truncated event that caused it. */
    hydrated(
      { account, because }: HydrationPass,
      { polled, changed, gaveUp }: PassTally,
      tookMs: number,
    ): void {
      const root = traces.rootOf({ account, eventId: because, headers: null });
      traces.record(traces.childOf(root), () => ({
        name: "hydrate",
        kind: SpanKind.INTERNAL,
        parent: root,
        tookMs,
        attributes: {
          "relay.account": account,
          "relay.event": privacy.id("event", because),
          "relay.polls": polled,
          "relay.changes": changed,
          "relay.outcome": gaveUp === null ? "done" : "given-up",
        },
        ...(gaveUp === null ? {} : { error: gaveUp }),
      }));
    },
  };
}

/**
 * Calls `ended` with the result of `run`, or with null and its error, and with the time that it
 * took.
 */
function timed<T>(
  run: () => Promise<T>,
  ended: (tookMs: number, result: T | null, error?: unknown) => void,
  from = performance.now(),
) {
  return run().then(
    (result) => {
      ended(performance.now() - from, result);
      return result;
    },
    (error: unknown) => {
      ended(performance.now() - from, null, error);
      throw error;
    },
  );
}

function traceAccepting(accepting: Accepting, { traces, privacy }: Spans): Accepting {
  /** The span of an event's receipt: the root of its trace if the event is new. */
  function received({ account, source, origin, envelope, subject, headers }: ReceivedEvent) {
    return (tookMs: number, outcome: AcceptOutcome | null, error?: unknown): void => {
      const root = traces.rootOf({ account, eventId: envelope.id, headers });
      const sender = readTraceparent(headers["traceparent"]);
      const isNew = outcome?.result === "accepted";
      traces.record(isNew ? root : traces.childOf(root), () => ({
        name: "receive",
        kind: origin === "webhook" ? SpanKind.SERVER : SpanKind.INTERNAL,
        parent: sender ?? (isNew ? null : root),
        tookMs,
        attributes: {
          "relay.account": account,
          "relay.source": source,
          "relay.origin": origin,
          "relay.event": privacy.id("event", envelope.id),
          "relay.kind": privacy.kind(envelope.event),
          ...(subject.type === "message" ? { "relay.message": privacy.wamid(subject.wamid) } : {}),
          ...(subject.type === "run" ? { "relay.run": privacy.id("run", subject.runId) } : {}),
          ...(outcome === null
            ? {}
            : { "relay.seq": outcome.seq, "relay.outcome": outcome.result }),
          ...(outcome?.result === "accepted" ? { "relay.disposition": outcome.disposition } : {}),
        },
        error:
          error === undefined
            ? undefined
            : privacy.text(error instanceof Error ? error.message : String(error)),
      }));
    };
  }

  return {
    ...accepting,
    accept: (event, proxyRoute) =>
      timed(() => accepting.accept(event, proxyRoute), received(event), event.startedAt),
    quarantine: (body) =>
      timed(
        () => accepting.quarantine(body),
        (tookMs, stored) => {
          if (stored === null) return;
          const sender = readTraceparent(body.headers["traceparent"]);
          traces.record(traces.childOf(sender), () => ({
            name: "receive",
            kind: SpanKind.SERVER,
            parent: sender,
            tookMs,
            attributes: {
              "relay.account": body.account,
              "relay.source": body.source,
              "relay.outcome": "quarantined",
            },
            error: privacy.text(body.error),
          }));
        },
        body.startedAt,
      ),
    release: (event) =>
      timed(
        () => accepting.release(event),
        (tookMs, outcome) => {
          if (outcome !== null) received(event)(tookMs, outcome);
        },
      ),
  };
}

function traceAttempts(hooks: LaneHooks, { traces, privacy }: Spans): LaneHooks {
  return {
    ...hooks,
    composed(delivery, outgoing) {
      const root = traces.rootOf(delivery);
      return { ...outgoing, traceparent: traceparentOf(traces.childOf(root)) };
    },
    attempted(report) {
      const { delivery, outgoing, outcome, decision } = report;
      const { result, tookMs, response } = outcome;
      const { subject } = delivery;
      const root = traces.rootOf(delivery);
      const isDelivered = decision.kind === "delivered";
      traces.record(readTraceparent(outgoing.traceparent) ?? traces.childOf(root), () => ({
        name: "deliver",
        kind: result.kind === "taken" ? SpanKind.PRODUCER : SpanKind.CLIENT,
        parent: root,
        tookMs,
        attributes: {
          "relay.account": delivery.account,
          "relay.source": delivery.source,
          "relay.route": delivery.route,
          "relay.event": privacy.id("event", delivery.eventId),
          "relay.seq": delivery.event,
          "relay.kind": privacy.kind(delivery.kind),
          ...(subject?.type === "message" ? { "relay.message": privacy.wamid(subject.key) } : {}),
          ...(subject?.type === "run" ? { "relay.run": privacy.id("run", subject.key) } : {}),
          "relay.delivery": privacy.delivery(outgoing.id),
          "relay.attempt": outgoing.attempt,
          "relay.outcome": decision.kind,
          ...(outgoing.replays > 0 ? { "relay.replay": true } : {}),
          ...(result.kind === "answered" ? { "http.response.status_code": result.status } : {}),
          ...(result.kind === "failed" ? { "error.type": result.error } : {}),
        },
        ...(isDelivered
          ? {}
          : {
              error:
                result.kind === "failed"
                  ? privacy.text(response?.toString("utf8") ?? result.error)
                  : decision.kind,
            }),
      }));
      hooks.attempted(report);
    },
  };
}

function tracePolling(
  polling: Polling,
  origin: "hydrate" | "reconcile",
  { traces, privacy }: Spans,
): Polling {
  return {
    ...polling,
    poll: (account, messageId, signal) =>
      timed(
        () => polling.poll(account, messageId, signal),
        (tookMs, answer) =>
          traces.record(traces.childOf(null), () => ({
            name: "poll",
            kind: SpanKind.CLIENT,
            parent: null,
            tookMs,
            attributes: {
              "relay.account": account,
              "relay.origin": origin,
              "relay.message_id": privacy.id("message", messageId),
              "relay.outcome": answer?.type ?? "aborted",
            },
            error:
              answer?.type === "failed"
                ? answer.error
                : answer?.type === "held"
                  ? answer.reason
                  : undefined,
          })),
      ),
  };
}

function traceSending(sending: SendingPort, { traces }: Spans): SendingPort {
  function traced<T extends { readonly replayed: boolean }>(
    kind: "message" | "run",
    account: string | undefined,
    { traceparent }: SendCaller,
    send: () => Promise<T>,
  ): Promise<T> {
    const parent = readTraceparent(traceparent);
    return timed(send, (tookMs, sent, error) => {
      // Not its text: the service's answer may quote the request.
      const code =
        sent === null ? (error instanceof RelayError ? error.code : "internal") : undefined;
      traces.record(traces.childOf(parent), () => ({
        name: "send",
        kind: SpanKind.SERVER,
        parent,
        tookMs,
        attributes: {
          ...(account === undefined ? {} : { "relay.account": account }),
          "relay.kind": kind,
          "relay.outcome": code ?? (sent?.replayed ? "replayed" : "done"),
        },
        error: code,
      }));
    });
  }

  return {
    sendMessage: (order, caller) =>
      traced("message", order.account, caller, () => sending.sendMessage(order, caller)),
    startRun: (order, caller) =>
      traced("run", order.account, caller, () => sending.startRun(order, caller)),
  };
}
