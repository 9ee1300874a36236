import { type Attributes, type SpanContext, SpanKind } from "@opentelemetry/api";
import type { SendingPort } from "../control/sending.ts";
import type { LaneHooks } from "../deliver/lane.ts";
import type { PassTally } from "../hydrate/pass.ts";
import type { StoredDelivery } from "../model/delivery.ts";
import { RelayError } from "../model/errors.ts";
import type { QuarantinedBody, ReceivedEvent, Subject } from "../model/event.ts";
import type { HydrationPass } from "../model/hydration.ts";
import type { Privacy } from "../observe/logger.ts";
import { createTraces, readTraceparent, type TracesParts, traceparentOf } from "../observe/traces.ts";
import type { AcceptOutcome } from "../store/rules.ts";
import type { Accepting } from "./accept.ts";
import type { Polling } from "./polling.ts";

export type Tracing = ReturnType<typeof createTracing>;

/**
 * One span per stage. Each function wraps a part of the relay; without traces, the parts are used as they are. Loaded only
 * when an endpoint is configured.
 */
export function createTracing({ privacy, ...parts }: TracesParts & { readonly privacy: Privacy }) {
  const traces = createTraces({ ...parts, privacy });

  function eventOf({ account, envelope, headers }: ReceivedEvent) {
    return { account, eventId: envelope.id, headers };
  }

  function subjectAttributes(subject: Subject): Attributes {
    if (subject.type === "message") return { "relay.message": privacy.wamid(subject.wamid) };
    return subject.type === "run" ? { "relay.run": privacy.id("run", subject.runId) } : {};
  }

  /** The span of an event's receipt: the root of its trace if the event is new. */
  function received(event: ReceivedEvent, from: number, outcome: AcceptOutcome | null, error?: unknown): void {
    const { account, source, origin, envelope, subject } = event;
    const root = traces.rootOf(eventOf(event));
    const sender = readTraceparent(event.headers["traceparent"]);
    const isNew = outcome?.result === "accepted";
    traces.record(isNew ? root : traces.childOf(root), () => ({
      name: "receive",
      kind: origin === "webhook" ? SpanKind.SERVER : SpanKind.INTERNAL,
      parent: sender ?? (isNew ? null : root),
      tookMs: performance.now() - from,
      attributes: {
        "relay.account": account,
        "relay.source": source,
        "relay.origin": origin,
        "relay.event": privacy.id("event", envelope.id),
        "relay.kind": privacy.kind(envelope.event),
        ...subjectAttributes(subject),
        ...(outcome === null ? {} : { "relay.seq": outcome.seq, "relay.outcome": outcome.result }),
        ...(outcome?.result === "accepted" ? { "relay.disposition": outcome.disposition } : {}),
      },
      error: errorText(error),
    }));
  }

  function errorText(error: unknown): string | undefined {
    if (error === undefined) return undefined;
    return privacy.text(error instanceof Error ? error.message : String(error));
  }

  return {
    close: traces.close,

    /** Keeps the sender's `traceparent` with the event, and when its request began. */
    arrived<E extends ReceivedEvent | QuarantinedBody>(event: E, traceparent: unknown, startedAt: number): E {
      const sender = readTraceparent(traceparent);
      const headers = sender === null ? event.headers : { ...event.headers, traceparent: traceparentOf(sender) };
      return { ...event, headers, startedAt };
    },

    accepting: (accepting: Accepting): Accepting => ({
      ...accepting,
      accept(event, proxyRoute) {
        const from = event.startedAt ?? performance.now();
        return accepting.accept(event, proxyRoute).then(
          (outcome) => {
            received(event, from, outcome);
            return outcome;
          },
          (error: unknown) => {
            received(event, from, null, error);
            throw error;
          },
        );
      },
      async quarantine(body) {
        const from = body.startedAt ?? performance.now();
        const stored = await accepting.quarantine(body);
        const sender = readTraceparent(body.headers["traceparent"]);
        traces.record(traces.childOf(sender), () => ({
          name: "receive",
          kind: SpanKind.SERVER,
          parent: sender,
          tookMs: performance.now() - from,
          attributes: { "relay.account": body.account, "relay.source": body.source, "relay.outcome": "quarantined" },
          error: privacy.text(body.error),
        }));
        return stored;
      },
      async release(event) {
        const from = performance.now();
        const outcome = await accepting.release(event);
        if (outcome !== null) received(event, from, outcome);
        return outcome;
      },
    }),

    attempts: (hooks: LaneHooks): LaneHooks => ({
      ...hooks,
      composed(delivery, outgoing) {
        const root = traces.rootOf(delivery);
        return { ...outgoing, traceparent: traceparentOf(traces.childOf(root)) };
      },
      attempted(report) {
        const { delivery, outgoing, outcome, decision } = report;
        const { result, tookMs, response } = outcome;
        const root = traces.rootOf(delivery);
        const isDelivered = decision.kind === "delivered";
        traces.record(readTraceparent(outgoing.traceparent) ?? traces.childOf(root), () => ({
          name: "deliver",
          kind: result.kind === "taken" ? SpanKind.PRODUCER : SpanKind.CLIENT,
          parent: root,
          tookMs,
          attributes: {
            ...deliveryAttributes(delivery),
            "relay.delivery": privacy.delivery(outgoing.id),
            "relay.attempt": outgoing.attempt,
            "relay.outcome": decision.kind,
            ...(outgoing.replays > 0 ? { "relay.replay": true } : {}),
            ...(result.kind === "answered" ? { "http.response.status_code": result.status } : {}),
            ...(result.kind === "failed" ? { "error.type": result.error } : {}),
          },
          ...(isDelivered
            ? {}
            : { error: result.kind === "failed" ? privacy.text(response?.toString("utf8") ?? result.error) : decision.kind }),
        }));
        hooks.attempted(report);
      },
    }),

    polling: (polling: Polling, origin: "hydrate" | "reconcile"): Polling => ({
      async poll(account, messageId, options) {
        const from = performance.now();
        const record = (outcome: string, error?: string) =>
          traces.record(traces.childOf(null), () => ({
            name: "poll",
            kind: SpanKind.CLIENT,
            parent: null,
            tookMs: performance.now() - from,
            attributes: {
              "relay.account": account,
              "relay.origin": origin,
              "relay.message_id": privacy.id("message", messageId),
              "relay.outcome": outcome,
            },
            error,
          }));
        try {
          const answer = await polling.poll(account, messageId, options);
          record(answer.type, answer.type === "error" ? answer.error.kind : undefined);
          return answer;
        } catch (error) {
          record("aborted");
          throw error;
        }
      },
    }),

    /** A hydration pass is over. It belongs to the trace of the truncated event that caused it. */
    hydrated({ account, because }: HydrationPass, { polled, changed, gaveUp }: PassTally, tookMs: number): void {
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

    sending(sending: SendingPort): SendingPort {
      async function traced<T extends { readonly replayed: boolean }>(
        kind: "message" | "run",
        account: string | undefined,
        parent: SpanContext | null,
        send: () => Promise<T>,
      ): Promise<T> {
        const from = performance.now();
        const record = (outcome: string, error?: string) =>
          traces.record(traces.childOf(parent), () => ({
            name: "send",
            kind: SpanKind.SERVER,
            parent,
            tookMs: performance.now() - from,
            attributes: { ...(account === undefined ? {} : { "relay.account": account }), "relay.kind": kind, "relay.outcome": outcome },
            error,
          }));
        try {
          const sent = await send();
          record(sent.replayed ? "replayed" : "done");
          return sent;
        } catch (error) {
          // Not its text: the service's answer may quote the request.
          const code = error instanceof RelayError ? error.code : "internal";
          record(code, code);
          throw error;
        }
      }
      return {
        sendMessage: (order, caller) =>
          traced("message", order.account, readTraceparent(caller.traceparent), () => sending.sendMessage(order, caller)),
        startRun: (order, caller) =>
          traced("run", order.account, readTraceparent(caller.traceparent), () => sending.startRun(order, caller)),
      };
    },
  };

  function deliveryAttributes({ account, source, route, event, eventId, kind, subject }: StoredDelivery): Attributes {
    return {
      "relay.account": account,
      "relay.source": source,
      "relay.route": route,
      "relay.event": privacy.id("event", eventId),
      "relay.seq": event,
      "relay.kind": privacy.kind(kind),
      ...(subject?.type === "message" ? { "relay.message": privacy.wamid(subject.key) } : {}),
      ...(subject?.type === "run" ? { "relay.run": privacy.id("run", subject.key) } : {}),
    };
  }
}
