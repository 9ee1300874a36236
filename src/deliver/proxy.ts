import type { Clock } from "../model/clock.ts";
import {
  keptResponseBytes,
  type ProxiedAnswer,
  proxyRoute,
  type Settlement,
  type StoredDelivery,
} from "../model/delivery.ts";
import { RelayError } from "../model/errors.ts";
import type { ReceivedEvent } from "../model/event.ts";
import { compose, settleAttempt } from "./attempt.ts";
import { type LaneHooks, type SettlingDecision, settledBy } from "./decide.ts";
import type { OutgoingDelivery } from "./destinations/destination.ts";
import type { UrlDestination, UrlDestinationSettings, UrlOutcome } from "./destinations/url.ts";

export interface ProxiedSource {
  readonly name: string;
  readonly to: UrlDestinationSettings;
  /** For how long the same request is recognized, in ms. */
  readonly dedupe: number;
}

export interface ProxyParts {
  /** Keeps `keep` bytes of an answer. */
  readonly connect: (to: UrlDestinationSettings, keep: number) => UrlDestination;
  readonly clock: Clock;
  /** For the store and the log. */
  readonly redact: (outcome: UrlOutcome, outgoing: OutgoingDelivery) => UrlOutcome;
  /** Makes the event durable, with a delivery on `route` that no dispatcher picks up. */
  readonly accept: (
    event: ReceivedEvent,
    route: string,
  ) => Promise<{ readonly result: "accepted" | "duplicate"; readonly seq: number }>;
  readonly settle: (settlement: Settlement) => Promise<unknown>;
  readonly hooks: Pick<LaneHooks, "composed" | "attempted" | "storeFailed" | "failed">;
}

export const stoppedDuring = "proxied: the relay stopped during the exchange";

/** A longer answer is an error, because a part of it could be taken for the whole. */
export const answerLimit = 1024 * 1024;

interface OpenSource extends ProxiedSource {
  readonly destination: UrlDestination;
}

/**
 * The request is stored first. The exchange is never retried, because the step has gone on by its
 * error exit.
 */
export function createProxy(sources: readonly ProxiedSource[], parts: ProxyParts) {
  const { clock, hooks } = parts;
  /** Of exchanges in flight, for copies of their requests. */
  const pending = new Map<string, Promise<ProxiedAnswer>>();
  const closing = new AbortController();
  const settling = { settle: parts.settle, clock, hooks, closing: closing.signal };
  const destinations = new Set<UrlDestination>();
  let openSources = open(sources);

  function open(from: readonly ProxiedSource[]): Map<string, OpenSource> {
    // One byte over the limit distinguishes an answer that is too long from one that just fits.
    const opened = new Map(
      from.map((source) => [
        source.name,
        { ...source, destination: parts.connect(source.to, answerLimit + 1) },
      ]),
    );
    for (const { destination } of opened.values()) destinations.add(destination);
    return opened;
  }

  async function exchangeOnce(event: ReceivedEvent): Promise<ProxiedAnswer> {
    const source = openSources.get(event.source);
    if (source === undefined) throw new RelayError("not_found", "no such source");
    const route = proxyRoute(event.source);
    const { result: stored, seq } = await parts.accept(event, route);
    if (stored === "duplicate") {
      throw new RelayError(
        "conflict",
        "the same request came before, and its answer is not kept here; nothing was sent",
      );
    }
    const delivery = firstDelivery(event, route, seq);
    const composed = compose(delivery, "original", source.to.passSignature);
    const outgoing = hooks.composed?.(delivery, composed) ?? composed;
    const startedAt = clock.now();
    const outcome = await source.destination.send(outgoing);
    const { decision, answer } = endOf(outcome);
    const kept = parts.redact(
      { ...outcome, response: outcome.response?.subarray(0, keptResponseBytes) ?? null },
      outgoing,
    );
    hooks.attempted({ delivery, outgoing, outcome: kept, decision });
    const { result, tookMs } = kept;
    const attempt = {
      number: 1,
      at: startedAt,
      tookMs,
      result,
      response: kept.response && Buffer.from(kept.response),
    };
    const { eventId, receivedAt } = delivery;
    const at = clock.now();
    // Not awaited: the sender's time runs. If a crash loses it, the next start ends the exchange.
    void settleAttempt(settling, delivery, {
      route,
      event: seq,
      eventId,
      attempt,
      settled: settledBy(decision, at),
      at,
      receivedAt,
    });
    if (answer instanceof RelayError) throw answer;
    return answer;
  }

  return {
    /**
     * Rejects with `downstream_failed` or `downstream_timeout`, or as `accept` does: then nothing
     * was sent.
     */
    async exchange(event: ReceivedEvent): Promise<ProxiedAnswer> {
      const key = `${event.account}\0${event.envelope.id}`;
      const known = pending.get(key);
      if (known !== undefined) {
        // Stored as a duplicate. Not awaited: the sender's time runs.
        parts.accept(event, proxyRoute(event.source)).catch(() => {});
        return known;
      }
      const answer = exchangeOnce(event);
      if ((openSources.get(event.source)?.dedupe ?? 0) === 0) return answer;
      pending.set(key, answer);
      return await answer.finally(() => pending.delete(key));
    },
    reload(next: readonly ProxiedSource[]): void {
      const old = openSources;
      openSources = open(next);
      for (const { destination } of old.values())
        void destination.retire().then(() => destinations.delete(destination));
    },
    /** Cuts exchanges in flight short. May be called again. */
    async close(): Promise<void> {
      closing.abort();
      await Promise.all([...destinations].map((destination) => destination.close()));
    },
  };
}

function firstDelivery(
  { envelope, ...event }: ReceivedEvent,
  route: string,
  seq: number,
): StoredDelivery {
  return {
    ...event,
    route,
    event: seq,
    eventId: envelope.id,
    kind: envelope.event,
    attempts: 0,
    spent: 0,
    replays: 0,
    subject: null,
  };
}

/** `answer`: for the step. */
function endOf({ result, response, responseType = null, responseEncoding = null }: UrlOutcome) {
  const dead = (reason: string): SettlingDecision => ({ kind: "dead", reason });
  if (result.kind === "failed") {
    const answer =
      result.error === "timeout"
        ? new RelayError("downstream_timeout", "the destination did not answer in time")
        : new RelayError("downstream_failed", `the destination gave no answer (${result.error})`);
    const reason =
      result.error === "aborted"
        ? stoppedDuring
        : `proxied: no answer (${result.error}); the step got an error`;
    return { decision: dead(reason), answer };
  }
  const { status } = result;
  if (response !== null && response.length > answerLimit) {
    const answer = new RelayError(
      "downstream_failed",
      "the destination's answer is larger than 1 MiB",
    );
    return {
      decision: dead("proxied: the answer was larger than 1 MiB; the step got an error"),
      answer,
    };
  }
  const decision: SettlingDecision =
    status < 300 ? { kind: "delivered" } : dead(`proxied: answered ${status}, which the step got`);
  const body = response ?? Buffer.alloc(0);
  return {
    decision,
    answer: { status, contentType: responseType, contentEncoding: responseEncoding, body },
  };
}
