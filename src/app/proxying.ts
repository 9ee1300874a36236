import type { SourceSettings } from "../config/schema.ts";
import { compose } from "../deliver/compose.ts";
import type { OutgoingDelivery, UrlDestination, UrlOutcome } from "../deliver/destinations/destination.ts";
import type { LaneHooks } from "../deliver/lane.ts";
import type { UrlDestinationSettings } from "../deliver/settings.ts";
import type { Clock } from "../model/clock.ts";
import { keptResponseBytes, proxyRoute, type Settlement, type StoredDelivery } from "../model/delivery.ts";
import { RelayError } from "../model/errors.ts";
import type { ReceivedEvent } from "../model/event.ts";
import type { ProxiedAnswer } from "../receive/receiver.ts";

export interface ProxyingParts {
  /** A destination that keeps answers up to `keep` bytes, and cuts longer ones off there. */
  readonly connect: (to: UrlDestinationSettings, keep: number) => UrlDestination;
  readonly clock: Clock;
  /** Takes secrets out of an answer that is stored and logged; the sender is passed the answer as it is. */
  readonly redact: (outcome: UrlOutcome, outgoing: OutgoingDelivery) => UrlOutcome;
  /** Makes the event durable, with a delivery on `route` that no dispatcher picks up. */
  readonly accept: (event: ReceivedEvent, route: string) => Promise<{ readonly result: "accepted" | "duplicate"; readonly seq: number }>;
  readonly settle: (settlement: Settlement) => Promise<unknown>;
  readonly attempted: LaneHooks["attempted"];
  readonly storeFailed: LaneHooks["storeFailed"];
}

export interface Proxying {
  /**
   * Rejects with `downstream_failed` or `downstream_timeout`, or as `accept` does: then nothing was sent. A known event is
   * not sent again: it gets the answer of the first, or `conflict` where this process does not have it.
   */
  exchange(event: ReceivedEvent): Promise<ProxiedAnswer>;
  reload(sources: Readonly<Record<string, SourceSettings>>): void;
  /** Ends what is under way: steps that wait are told at once. May be called again. */
  close(): Promise<void>;
}

/** Why a delivery is dead whose exchange the relay's own end cut short. */
export const stoppedDuring = "proxied: the relay stopped during the exchange";

/** Most bytes of a downstream's answer that are passed back. One of more is no answer: a part of it could be taken for the whole. */
export const answerLimit = 1024 * 1024;

/** Answers kept for requests that come again; the oldest go first. */
const keptAnswers = { count: 1_000, bytes: 16 * 1024 * 1024 };

/** How long after a failed write what came of an exchange is written again. */
const storeRetryMs = 500;

/** A destination with what is under way on it; ended with the last of that once other settings have taken its place. */
interface Line {
  readonly to: UrlDestinationSettings;
  readonly destination: UrlDestination;
  /** The same request may be known again. */
  readonly dedupes: boolean;
  underWay: number;
  retired: boolean;
}

type Verdict = { readonly kind: "delivered" } | { readonly kind: "dead"; readonly reason: string };

/**
 * `mode: proxy`: the automation step waits for the downstream's answer. The request is stored first and
 * the exchange recorded as a delivery with one attempt; it is never retried, because the step has been
 * told of the failure and goes on by its error exit.
 */
export function createProxying(sources: Readonly<Record<string, SourceSettings>>, parts: ProxyingParts): Proxying {
  const { clock } = parts;
  const answers = createAnswers();
  let lines = open(sources);
  let closed = false;
  const abort = new AbortController();

  function open(from: Readonly<Record<string, SourceSettings>>): Map<string, Line> {
    const opened = new Map<string, Line>();
    for (const [name, source] of Object.entries(from)) {
      if (source.kind !== "automation-request" || source.mode !== "proxy" || source.to === undefined) continue;
      // One byte over the limit tells an answer that is too large from one that just fits.
      const destination = parts.connect(source.to, answerLimit + 1);
      opened.set(name, { to: source.to, destination, dedupes: source.dedupe > 0, underWay: 0, retired: false });
    }
    return opened;
  }

  async function send(line: Line, delivery: StoredDelivery): Promise<UrlOutcome> {
    const outgoing = compose(delivery, "original", line.to.passSignature);
    const at = clock.now();
    line.underWay += 1;
    const outcome = await line.destination.send(outgoing, abort.signal);
    line.underWay -= 1;
    if (line.retired && line.underWay === 0) void line.destination.close();
    const decision = judge(outcome);
    const kept = parts.redact({ ...outcome, response: outcome.response?.subarray(0, keptResponseBytes) ?? null }, outgoing);
    parts.attempted({ delivery, outgoing, outcome: kept, decision });
    const { result, tookMs } = kept;
    const response = kept.response === null ? null : Buffer.from(kept.response);
    const settled = decision.kind === "dead" ? { to: "dead" as const, reason: decision.reason } : { to: "delivered" as const };
    const { route, event, eventId } = delivery;
    // Not waited for: the step's time runs. Lost in a crash, it is found open at the next start and ended then.
    void settle({ route, event, eventId, attempt: { number: 1, at, tookMs, result, response }, settled, at: clock.now() });
    return outcome;
  }

  /** Writes down what came of it; while the store cannot take it, keeps it and tries again. */
  async function settle(settlement: Settlement): Promise<void> {
    for (;;) {
      try {
        await parts.settle(settlement);
        return;
      } catch (error) {
        parts.storeFailed(settlement.route, error);
        if (closed) return;
        await new Promise<void>((resolve) => clock.after(storeRetryMs, resolve));
      }
    }
  }

  async function exchangeOnce(event: ReceivedEvent): Promise<ProxiedAnswer> {
    const line = lines.get(event.source);
    if (line === undefined) throw new RelayError("not_found", "no such source");
    const route = proxyRoute(event.source);
    const { result: stored, seq } = await parts.accept(event, route);
    if (stored === "duplicate") {
      throw new RelayError("conflict", "the same request came before, and its answer is not kept here; nothing was sent");
    }
    const outcome = await send(line, firstDelivery(event, route, seq));
    const { result, response } = outcome;
    if (result.kind === "answered" && !isTooLarge(outcome)) {
      return {
        status: result.status,
        contentType: outcome.responseType ?? null,
        contentEncoding: outcome.responseEncoding ?? null,
        body: response ?? Buffer.alloc(0),
      };
    }
    if (result.kind === "answered") throw new RelayError("downstream_failed", "the destination's answer is larger than 1 MiB");
    if (result.error === "timeout") throw new RelayError("downstream_timeout", "the destination did not answer in time");
    throw new RelayError("downstream_failed", `the destination gave no answer (${result.error})`);
  }

  return {
    async exchange(event) {
      const key = `${event.account}\0${event.envelope.id}`;
      const known = answers.get(key);
      if (known !== undefined) {
        // Counted where it is stored, and not waited for: the step's time runs.
        parts.accept(event, proxyRoute(event.source)).catch(() => {});
        return known;
      }
      const answer = exchangeOnce(event);
      if (lines.get(event.source)?.dedupes === true) answers.begin(key, answer);
      return answer;
    },
    reload(next) {
      const old = lines;
      lines = open(next);
      for (const line of old.values()) {
        line.retired = true;
        if (line.underWay === 0) void line.destination.close();
      }
    },
    async close() {
      closed = true;
      abort.abort();
      await Promise.all([...lines.values()].map(({ destination }) => destination.close()));
    },
  };
}

/** Answers in flight, and those given, by event. One that ended without a call to the destination is not kept. */
function createAnswers() {
  const kept = new Map<string, { readonly answer: Promise<ProxiedAnswer>; bytes: number }>();
  let bytes = 0;

  function drop(key: string): void {
    bytes -= kept.get(key)?.bytes ?? 0;
    kept.delete(key);
  }

  function settled(key: string, size: number): void {
    const entry = kept.get(key);
    if (entry === undefined) return;
    entry.bytes = size;
    bytes += size;
    for (const oldest of kept.keys()) {
      if (bytes <= keptAnswers.bytes && kept.size <= keptAnswers.count) break;
      drop(oldest);
    }
  }

  return {
    get: (key: string): Promise<ProxiedAnswer> | undefined => kept.get(key)?.answer,
    begin(key: string, answer: Promise<ProxiedAnswer>): void {
      kept.set(key, { answer, bytes: 0 });
      answer.then(
        ({ body }) => settled(key, body.length),
        (error: unknown) => {
          const wasSent = error instanceof RelayError && (error.code === "downstream_failed" || error.code === "downstream_timeout");
          if (wasSent) settled(key, 0);
          else drop(key);
        },
      );
    },
  };
}

/** The delivery as it stands in the store, just planned. */
function firstDelivery({ envelope, ...event }: ReceivedEvent, route: string, seq: number): StoredDelivery {
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

function isTooLarge({ response }: UrlOutcome): boolean {
  return response !== null && response.length > answerLimit;
}

function judge(outcome: UrlOutcome): Verdict {
  const { result } = outcome;
  if (result.kind === "failed" && result.error === "aborted") return { kind: "dead", reason: stoppedDuring };
  if (result.kind === "failed") return { kind: "dead", reason: `proxied: no answer (${result.error}); the step was told` };
  if (isTooLarge(outcome)) return { kind: "dead", reason: "proxied: the answer was larger than 1 MiB; the step was told of a failure" };
  if (result.status < 300) return { kind: "delivered" };
  return { kind: "dead", reason: `proxied: answered ${result.status}, which the step was given` };
}
