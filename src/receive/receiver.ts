import type { IncomingMessage, ServerResponse } from "node:http";
import type { ProxiedAnswer } from "../model/delivery.ts";
import { RelayError } from "../model/errors.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import { formatOf } from "../model/formats/formats.ts";
import { type Answer, errorAnswer, jsonAnswer, send, sendEarly } from "./answer.ts";
import { createFailureLimit } from "./client-address.ts";
import { answerHandshake, type InboundSource, type SeveralSettings } from "./inbound-source.ts";
import { createBodyReader, type WebhookRequest } from "./read-body.ts";
import { createSeveral, type ReceivedItem } from "./several.ts";
import type { SignatureRefusal } from "./signature/verify.ts";
import { createRequestVerifier, type VerifiedRequest } from "./verify-request.ts";

/** What the receiver needs of the store and of proxying. Every call rejects when nothing can be stored now. */
interface Accepting {
  /** Resolves once the event is durable; `duplicate` when its id is stored already. */
  event(event: ReceivedEvent): Promise<{ readonly result: "accepted" | "duplicate" }>;
  quarantine(body: QuarantinedBody): Promise<{ readonly result: "quarantined" | "duplicate" }>;
  /**
   * The exchange of a `mode: proxy` source: stores the request, sends it to the source's destination
   * and resolves with the answer to pass back. Rejects with a `RelayError` when there is none.
   */
  proxy(event: ReceivedEvent): Promise<ProxiedAnswer>;
}

/** The outcomes of a webhook request; docs/reference/metrics.md lists when each applies. */
export const receiveOutcomes = [
  "accepted",
  "duplicate",
  "quarantined",
  "unassigned",
  "handshake",
  "proxied",
  "proxy-failed",
  "refused",
  "too-large",
  "unknown-source",
  "not-post",
  "overloaded",
  "unavailable",
  "stopping",
  "gone",
  "failed",
] as const;
type ReceiveOutcome = (typeof receiveOutcomes)[number];

interface ReceiverParts {
  readonly sources: readonly InboundSource[];
  readonly accepting: Accepting;
  readonly now: () => number;
  /** The client's address, as trusted proxies report it. */
  readonly address: (request: IncomingMessage) => string;
  readonly limits: ReceiverLimits;
  readonly hooks: ReceiverHooks;
  /** Adds to a verified event what its trace needs. Absent while traces are off. `startedAt` is of `performance.now()`. */
  readonly arrived?: <E extends ReceivedEvent | QuarantinedBody>(event: E, traceparent: unknown, startedAt: number) => E;
}

interface ReceiverLimits {
  readonly bodyLimit: number;
  readonly maxInFlight: number;
  readonly badSignatureLimit: number;
  /** Milliseconds a sender may take to read a proxied answer. Node's server enforces it for requests. */
  readonly requestTimeout: number;
}

export interface ReceiverHooks {
  received(source: string, outcome: ReceiveOutcome): void;
  /** The request is over. `status` is 0 when the sender left before it got an answer. */
  ended(source: string, status: number, tookMs: number): void;
  /** `address` is null when the refusal must not be logged, because there are too many. */
  refused(source: string, reason: SignatureRefusal | "wrong-verify-token", address: string | null): void;
  quarantined(body: QuarantinedBody): void;
  /** An unexpected fault; answered 500. */
  failed(source: string, error: unknown): void;
}

export interface Receiver {
  /** Handles a request under `/webhooks/`; returns false for any other path. */
  handle(request: WebhookRequest, response: ServerResponse): boolean;
  /** Replaces sources and secrets. Requests in flight finish under the old ones. */
  reload(sources: readonly InboundSource[]): void;
  /** Answers every new request with 503 from now on and closes its connection. */
  drain(): void;
  inFlight(): number;
}

const prefix = "/webhooks/";
const accepted = jsonAnswer(200, { status: "accepted" });
const duplicate = jsonAnswer(200, { status: "duplicate" });
const retrySoon = ["retry-after", "1"];
const getOrPost = errorAnswer("method_not_allowed", "webhooks must be sent with POST", ["allow", "GET, POST"]);
const badSignature = errorAnswer("bad_signature", "the signature does not match this request");

/** The answers to requests that are not stored. */
const refusals = {
  stopping: errorAnswer("shutting_down", "the relay is stopping", retrySoon),
  "unknown-source": errorAnswer("not_found", "unknown source"),
  "not-post": errorAnswer("method_not_allowed", "webhooks must be sent with POST", ["allow", "POST"]),
  overloaded: errorAnswer("overloaded", "too many requests in flight", retrySoon),
  "too-large": errorAnswer("too_large", "the body is larger than the limit"),
  unavailable: errorAnswer("store_unavailable", "the event cannot be stored now", ["retry-after", "5"]),
  failed: errorAnswer("internal", "internal error; see the log of the relay"),
} satisfies Partial<Record<ReceiveOutcome, Answer>>;

/** Bytes buffered for incomplete bodies: 200,000 events of the usual size, or 64 of the largest by default. */
const roomForBodies = 64 * 1024 ** 2;

interface Endpoint {
  readonly source: InboundSource;
  readonly verify: ReturnType<typeof createRequestVerifier>;
}

/**
 * The HTTP edge of `POST /webhooks/{source}`. It runs on bare `node:http`, because Fastify costs a fifth of the requests
 * per second (bench/ingest).
 */
export function createReceiver(parts: ReceiverParts): Receiver {
  const { now, limits, hooks, arrived } = parts;
  const readBody = createBodyReader({ bodyLimit: limits.bodyLimit, mostHeld: Math.max(roomForBodies, 4 * limits.bodyLimit) });
  const answers = createAnswers(parts, () => isDraining);
  let endpoints = byName(parts.sources);
  let inFlight = 0;
  let isDraining = false;

  function handle(request: WebhookRequest, response: ServerResponse): boolean {
    const url = request.url ?? "";
    if (!url.startsWith(prefix)) return false;
    const query = url.indexOf("?");
    // Compared without decoding and without resolving dot segments, so a path can name one source only.
    const name = query === -1 ? url.slice(prefix.length) : url.slice(prefix.length, query);
    const endpoint = endpoints.get(name) ?? underSecret(name);
    const startedAt = performance.now();
    const label = endpoint?.source.name ?? "-";
    let isCounted = false;
    response.on("close", () => {
      if (isCounted) inFlight -= 1;
      hooks.ended(label, response.headersSent ? response.statusCode : 0, performance.now() - startedAt);
    });
    /** `end` closes the connection. */
    const refuse = (outcome: keyof typeof refusals, end = false, answer: Answer = refusals[outcome]): true => {
      hooks.received(label, outcome);
      sendEarly(request, response, answer, end);
      return true;
    };
    if (isDraining) return refuse("stopping", true);
    if (endpoint === undefined) return refuse("unknown-source");
    const { source } = endpoint;
    const { several: settings } = source;
    if (request.method === "GET" && settings !== undefined) {
      answers.handshake(source, settings, request, response);
      return true;
    }
    if (request.method !== "POST") return refuse("not-post", false, settings === undefined ? undefined : getOrPost);
    if (inFlight >= limits.maxInFlight) return refuse("overloaded");
    inFlight += 1;
    isCounted = true;
    readBody(
      request,
      (result) => {
        if (result.kind === "body") respond(endpoint, request, response, result.body, startedAt);
        else if (result.kind === "gone") {
          hooks.received(label, result.kind);
          response.destroy();
        }
        // A body in chunks has no known end: closing tells the sender to stop.
        else refuse(result.kind, result.kind === "too-large" && request.headers["transfer-encoding"] !== undefined);
      },
      bodyLimitOf(source, limits.bodyLimit),
    );
    return true;
  }

  function respond(
    { source, verify }: Endpoint,
    request: IncomingMessage,
    response: ServerResponse,
    body: Buffer,
    startedAt: number,
  ): void {
    const at = now();
    const fail = (error: unknown): void => answers.failure(source.name, response, error);
    let verified: VerifiedRequest;
    try {
      verified = verify({ method: "POST", url: request.url ?? "", headers: request.headers, body, nowMs: at });
      if (arrived !== undefined) verified = withTrace(verified, arrived, request, startedAt);
    } catch (error) {
      fail(error);
      return;
    }
    if (verified.kind === "refused") answers.refusal(source, verified.reason, request, response, at);
    else if (verified.kind === "several") answers.several(source, verified.read, body.length, response, fail);
    else if (verified.kind === "quarantined") answers.quarantined(source, verified.body, response, fail);
    else if (source.mode === "proxy") answers.proxied(source, verified.event, response, fail);
    else answers.event(source, verified.event, response, fail);
  }

  /** The source of a path with a secret behind its name. */
  function underSecret(name: string): Endpoint | undefined {
    const slash = name.indexOf("/");
    const endpoint = slash === -1 ? undefined : endpoints.get(name.slice(0, slash));
    return endpoint?.source.several?.pathSecrets === undefined ? undefined : endpoint;
  }

  return {
    handle,
    reload(sources) {
      endpoints = byName(sources);
    },
    drain() {
      isDraining = true;
    },
    inFlight: () => inFlight,
  };
}

/** Stores what was verified, and answers. `fail` answers what cannot be stored now. */
function createAnswers({ accepting, now, address: addressOf, limits, hooks }: ReceiverParts, isDraining: () => boolean) {
  const badSignatures = createFailureLimit(() => limits.badSignatureLimit);
  const several = createSeveral({ ...accepting, quarantined: hooks.quarantined });
  // While draining, each answer closes its connection: a kept-alive one would delay the shutdown.
  const answer = (response: ServerResponse, text: Answer): void => send(response, text, isDraining());

  return {
    event({ name }: InboundSource, event: ReceivedEvent, response: ServerResponse, fail: (error: unknown) => void): void {
      accepting.event(event).then(({ result }) => {
        hooks.received(name, result);
        answer(response, result === "accepted" ? accepted : duplicate);
      }, fail);
    },

    /** Answers 200 whatever the items are: Meta repeats anything else for a week. */
    several(
      { name }: InboundSource,
      read: () => readonly ReceivedItem[],
      bytes: number,
      response: ServerResponse,
      fail: (error: unknown) => void,
    ): void {
      several.take(name, bytes, read).then((counts) => {
        if (counts === null) {
          hooks.received(name, "overloaded");
          answer(response, refusals.overloaded);
          return;
        }
        const { events, quarantined, unassigned } = counts;
        hooks.received(name, events > 0 ? "accepted" : quarantined > 0 ? "quarantined" : unassigned > 0 ? "unassigned" : "duplicate");
        answer(response, jsonAnswer(200, { status: "accepted", ...counts }));
      }, fail);
    },

    handshake(source: InboundSource, { verifyTokens }: SeveralSettings, request: IncomingMessage, response: ServerResponse): void {
      const { isRight, answer: text } = answerHandshake(request.url ?? "", verifyTokens);
      if (isRight) {
        hooks.received(source.name, "handshake");
        sendEarly(request, response, text);
        return;
      }
      const { waitSeconds, isLogged } = badSignatures.count(addressOf(request), now());
      hooks.received(source.name, "refused");
      hooks.refused(source.name, "wrong-verify-token", isLogged ? addressOf(request) : null);
      sendEarly(request, response, waitSeconds === null ? text : tooManyFailures(waitSeconds), waitSeconds !== null);
    },

    refusal(source: InboundSource, reason: SignatureRefusal, request: IncomingMessage, response: ServerResponse, at: number): void {
      const address = addressOf(request);
      const { waitSeconds, isLogged } = badSignatures.count(address, at);
      hooks.received(source.name, "refused");
      if (waitSeconds === null) {
        hooks.refused(source.name, reason, isLogged ? address : null);
        send(response, badSignature);
      } else {
        send(response, tooManyFailures(waitSeconds), true);
      }
    },

    quarantined(source: InboundSource, body: QuarantinedBody, response: ServerResponse, fail: (error: unknown) => void): void {
      accepting.quarantine(body).then(() => {
        hooks.received(source.name, "quarantined");
        hooks.quarantined(body);
        send(response, jsonAnswer(202, { status: "quarantined", error: body.error }));
      }, fail);
    },

    proxied(source: InboundSource, event: ReceivedEvent, response: ServerResponse, fail: (error: unknown) => void): void {
      accepting
        .proxy(event)
        .then((answer) => {
          // A sender that stops reading would otherwise occupy a slot and up to a megabyte forever.
          response.setTimeout(limits.requestTimeout);
          send(response, proxiedAnswer(answer));
          hooks.received(source.name, "proxied");
        })
        // Also catches a downstream answer that cannot be sent, such as an invalid header.
        .catch(fail);
    },

    failure(source: string, response: ServerResponse, error: unknown): void {
      if (error instanceof Error && error.name === "StoreUnavailable") {
        hooks.received(source, "unavailable");
        send(response, refusals.unavailable);
        return;
      }
      if (error instanceof RelayError) {
        hooks.received(source, "proxy-failed");
        send(response, errorAnswer(error.code, error.message));
        return;
      }
      hooks.received(source, "failed");
      hooks.failed(source, error);
      send(response, refusals.failed);
    },
  };
}

function bodyLimitOf({ several: settings }: InboundSource, least: number): number {
  return settings === undefined ? least : Math.max(least, formatOf(settings.format).largestBody ?? 0);
}

const tooManyFailures = (waitSeconds: number): Answer =>
  errorAnswer("too_many_bad_signatures", "too many bad signatures from this address", ["retry-after", String(waitSeconds)]);

function withTrace(
  verified: VerifiedRequest,
  arrived: NonNullable<ReceiverParts["arrived"]>,
  { headers }: IncomingMessage,
  startedAt: number,
): VerifiedRequest {
  const { traceparent } = headers;
  const traced = (item: ReceivedItem): ReceivedItem =>
    item.kind === "event"
      ? { kind: "event", event: arrived(item.event, traceparent, startedAt) }
      : { kind: "quarantined", body: arrived(item.body, traceparent, startedAt) };
  if (verified.kind === "refused") return verified;
  return verified.kind === "several" ? { kind: "several", read: () => verified.read().map(traced) } : traced(verified);
}

/** The downstream's answer for the sender. 204 and 304 have no body, so no `content-length`. */
function proxiedAnswer({ status, contentType, contentEncoding, body }: ProxiedAnswer): Answer {
  const headers = status === 204 || status === 304 ? [] : ["content-length", String(body.length)];
  if (contentType !== null) headers.push("content-type", contentType);
  if (contentEncoding !== null) headers.push("content-encoding", contentEncoding);
  return { status, headers, body };
}

function byName(sources: readonly InboundSource[]): Map<string, Endpoint> {
  return new Map(sources.map((source) => [source.name, { source, verify: createRequestVerifier(source) }]));
}
