import type { Decision } from "../../src/deliver/decide.ts";
import { createMetrics } from "../../src/observe/metrics.ts";
import type { receiveOutcomes } from "../../src/receive/receiver.ts";
import type { CallOutcome, CallPriority } from "../../src/service/endpoints.ts";
import type { StopReason } from "../../src/service/limits/stops.ts";
import { code, paragraphs, table } from "./markdown.ts";

// The compiler compares these words with those that the relay counts.

const webhookOutcomes: Record<(typeof receiveOutcomes)[number], string> = {
  accepted: "200: stored; of a request with several events, at least one",
  duplicate: "200: the id is known",
  unassigned: "200: stored; no account has the business number of its events",
  handshake: "200: Meta's handshake with a right verify token",
  quarantined: "202, from Meta 200: stored, not a valid event",
  proxied: "the destination's answer, whatever its status",
  "proxy-failed": "502, 504, or 409 for a copy whose answer is not stored",
  refused: "401, 403 or 429: bad signature, or verify token",
  "too-large": "413",
  "unknown-source": "404",
  "not-post": "405",
  overloaded: "503: too much in flight",
  unavailable: "503: cannot store now",
  stopping: "503: the relay is stopping",
  gone: "none: the sender closed the connection, or was too slow (408)",
  failed: "500: a fault of the relay",
};

const attemptOutcomes: Record<Decision["kind"], string> = {
  delivered: "nothing",
  retry: "another attempt",
  dead: "a dead letter",
  stop: "the destination stops, and the delivery waits",
  interrupted:
    "the relay was stopping: the attempt is repeated after the start, or by another process",
};

const callOutcomes: Record<CallOutcome["type"] | "refused", string> = {
  answered: "an answer, also one that refuses the request",
  "rate-limited": "429: a cap per minute; other programs use the account too",
  "quota-used-up": "429: a monthly quota",
  unauthenticated: "401: the key is missing, wrong or revoked",
  blocked: "429: this address sent too many bad keys",
  "not-sent": "not reached: no connection, unknown name, or given up before sending",
  unknown: "no answer, or an unreadable one",
  refused: "not called: the relay refused the call",
};

const priorities: Record<CallPriority, string> = {
  send: "sends",
  poll: "reconciliation and hydration",
};

const stops: Record<StopReason, string> = {
  quota: "the monthly quota of API calls is used up: every call",
  "quota-messages": "the quota of messages: sends",
  "quota-runs": "the quota of automation runs: starts of runs",
  "quota-reads": "the quota of reads: polls",
  unauthenticated: "the service refuses the key: every call but a probe from time to time",
  blocked: "the service blocks this address: every call for a minute",
};

const rowsOf = (words: Readonly<Record<string, string>>): string[][] =>
  Object.entries(words).map(([word, text]) => [code(word), text]);

export function metricsPage(): string {
  const { described } = createMetrics({ version: "", node: "", storage: "sqlite" });
  return paragraphs(
    table(
      ["metric", "type", "labels", "several processes", "meaning"],
      described
        .toSorted((a, b) => a.name.localeCompare(b.name))
        .map(({ name, type, labelNames, combine, help }) => [
          code(name),
          type,
          labelNames.map(code).join(", "),
          code(combine),
          help,
        ]),
    ),
    "## Label values",
    table(["`outcome` of `relay_webhook_requests_total`", "answer"], rowsOf(webhookOutcomes)),
    table(
      ["`outcome` of `relay_delivery_attempts_total`", "what follows"],
      rowsOf(attemptOutcomes),
    ),
    table(
      ["`outcome` of `relay_service_calls_total`", "answer of the service"],
      rowsOf(callOutcomes),
    ),
    table(["`priority` of `relay_service_calls_waiting`", "calls"], rowsOf(priorities)),
    table(["`reason` of `relay_service_stopped`", "stopped calls"], rowsOf(stops)),
  );
}
