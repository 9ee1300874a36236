import type { IncomingMessage, ServerResponse } from "node:http";
import type { ProxiedAnswer } from "../model/delivery.ts";
import { RelayError } from "../model/errors.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import { formatOf } from "../model/formats/formats.ts";
import { createFailureLimit } from "./client-address.ts";
import {
  type Answer,
  createBodyReader,
  errorAnswer,
  jsonAnswer,
  send,
  sendEarly,
  type WebhookRequest,
} from "./http.ts";
import { answerHandshake, type InboundSource, type SeveralSettings } from "./inbound-source.ts";
import { createSeveral, type ItemCounts, type Storing } from "./several.ts";
import {
  createRequestVerifier,
  type ReceivedItem,
  type SignatureRefusal,
  type Traced,
  type VerifiedRequest,
} from "./verify-request.ts";

interface Accepting extends Storing {
  /** Rejects with a `RelayError` when there is no answer. */
  proxy(event: ReceivedEvent): Promise<ProxiedAnswer>;
}

/** docs/reference/metrics.md lists when each applies. */
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
  readonly address: (request: IncomingMessage) => string;
  readonly limits: ReceiverLimits;
  readonly hooks: ReceiverHooks;
  readonly traced?: Traced;
}

interface ReceiverLimits {
  readonly bodyLimit: number;
  readonly maxInFlight: number;
  readonly badSignatureLimit: number;
  /** For reading a proxied answer. Node's server enforces it for requests. */
  readonly requestTimeout: number;
}

type RefusalReason = SignatureRefusal | "wrong-verify-token";

export interface ReceiverHooks {
  received(source: string, outcome: ReceiveOutcome): void;
  /** `status` 0: the sender left before it got an answer. */
  ended(source: string, status: number, tookMs: number): void;
  /** `address` null: too many to log. */
  refused(source: string, reason: RefusalReason, address: string | null): void;
  quarantined(body: QuarantinedBody): void;
  failed(source: string, error: unknown): void;
}

const prefix = "/webhooks/";
const accepted = jsonAnswer(200, { status: "accepted" });
const duplicate = jsonAnswer(200, { status: "duplicate" });
const retrySoon = ["retry-after", "1"];
const getOrPost = errorAnswer("method_not_allowed", "webhooks must be sent with POST", [
  "allow",
  "GET, POST",
]);
const badSignature = errorAnswer("bad_signature", "the signature does not match this request");

const refusals = {
  stopping: errorAnswer("shutting_down", "the relay is stopping", retrySoon),
  "unknown-source": errorAnswer("not_found", "unknown source"),
  "not-post": errorAnswer("method_not_allowed", "webhooks must be sent with POST", [
    "allow",
    "POST",
  ]),
  overloaded: errorAnswer("overloaded", "too many requests in flight", retrySoon),
  "too-large": errorAnswer("too_large", "the body is larger than the limit"),
  unavailable: errorAnswer("store_unavailable", "the event cannot be stored now", [
    "retry-after",
    "5",
  ]),
  failed: errorAnswer("internal", "internal error; see the log of the relay"),
} satisfies Partial<Record<ReceiveOutcome, Answer>>;

/** For incomplete bodies: 200,000 events of the usual size, or 64 of the largest. */
const roomForBodies = 64 * 1024 ** 2;

interface Endpoint {
  readonly source: InboundSource;
  readonly verify: ReturnType<typeof createRequestVerifier>;
}

interface Exchange {
  readonly source: InboundSource;
  readonly request: WebhookRequest;
  readonly response: ServerResponse;
  /** Of `performance.now()`. */
  readonly startedAt: number;
}

export type Receiver = ReturnType<typeof createReceiver>;

/** On bare `node:http`, because Fastify costs a fifth of the requests per second (bench/ingest). */
export function createReceiver(parts: ReceiverParts) {
  const { now, limits, hooks } = parts;
  const readBody = createBodyReader({
    bodyLimit: limits.bodyLimit,
    mostHeld: Math.max(roomForBodies, 4 * limits.bodyLimit),
  });
  const answers = createAnswers(parts, () => isEnding);
  let endpoints = byName(parts);
  let inFlight = 0;
  let isEnding = false;
  let isDraining = false;

  function endpointOf(url: string): Endpoint | undefined {
    const query = url.indexOf("?");
    // Compared without decoding and without resolving dot segments, so a path can name one source
    // only.
    const name = query === -1 ? url.slice(prefix.length) : url.slice(prefix.length, query);
    const endpoint = endpoints.get(name);
    if (endpoint !== undefined) return endpoint;
    const slash = name.indexOf("/");
    const underName = slash === -1 ? undefined : endpoints.get(name.slice(0, slash));
    return underName?.source.several?.pathSecrets === undefined ? undefined : underName;
  }

  function respond(verify: Endpoint["verify"], exchange: Exchange, body: Buffer): void {
    const { request, startedAt } = exchange;
    const at = now();
    try {
      const verified = verify(
        { method: "POST", url: request.url ?? "", headers: request.headers, body, nowMs: at },
        startedAt,
      );
      answers.verified(exchange, verified, body.length, at);
    } catch (error) {
      answers.failure(exchange, error);
    }
  }

  return {
    /** False for any other path than `/webhooks/`. */
    handle(request: WebhookRequest, response: ServerResponse): boolean {
      const url = request.url ?? "";
      if (!url.startsWith(prefix)) return false;
      const endpoint = endpointOf(url);
      const startedAt = performance.now();
      const label = endpoint?.source.name ?? "-";
      let isCounted = false;
      response.on("close", () => {
        if (isCounted) inFlight -= 1;
        hooks.ended(
          label,
          response.headersSent ? response.statusCode : 0,
          performance.now() - startedAt,
        );
      });
      const refuse = (
        outcome: keyof typeof refusals,
        end = false,
        answer: Answer = refusals[outcome],
      ): true => {
        hooks.received(label, outcome);
        sendEarly(request, response, answer, end);
        return true;
      };
      if (isDraining) return refuse("stopping", true);
      if (endpoint === undefined) return refuse("unknown-source");
      const { source, verify } = endpoint;
      const exchange: Exchange = { source, request, response, startedAt };
      if (request.method === "GET" && source.several !== undefined) {
        answers.handshake(exchange, source.several);
        return true;
      }
      if (request.method !== "POST")
        return refuse("not-post", false, source.several === undefined ? undefined : getOrPost);
      if (inFlight >= limits.maxInFlight) return refuse("overloaded");
      inFlight += 1;
      isCounted = true;
      readBody(
        request,
        (result) => {
          if (result.kind === "body") respond(verify, exchange, result.body);
          else if (result.kind === "gone") {
            hooks.received(label, result.kind);
            response.destroy();
          }
          // A body in chunks has no known end: closing tells the sender to stop.
          else
            refuse(
              result.kind,
              result.kind === "too-large" && request.headers["transfer-encoding"] !== undefined,
            );
        },
        bodyLimitOf(source, limits.bodyLimit),
      );
      return true;
    },
    /** Requests in flight finish under the old ones. */
    reload(sources: readonly InboundSource[]): void {
      endpoints = byName({ ...parts, sources });
    },
    /** From now on, answers end their connections. */
    end(): void {
      isEnding = true;
    },
    drain(): void {
      isEnding = true;
      isDraining = true;
    },
    inFlight: (): number => inFlight,
  };
}

function createAnswers(
  { accepting, now, address: addressOf, limits, hooks }: ReceiverParts,
  isEnding: () => boolean,
) {
  const badSignatures = createFailureLimit(() => limits.badSignatureLimit);
  const several = createSeveral({ ...accepting, quarantined: hooks.quarantined });

  function answer({ source, response }: Exchange, outcome: ReceiveOutcome, text: Answer): void {
    // A kept-alive connection would delay the shutdown.
    send(response, text, isEnding());
    hooks.received(source.name, outcome);
  }

  /** `text`: unless the address fails too often. */
  function refuse(
    { source, request, response }: Exchange,
    reason: RefusalReason,
    text: Answer,
    at: number,
  ): void {
    const address = addressOf(request);
    const { waitSeconds, isLogged } = badSignatures.count(address, at);
    hooks.received(source.name, "refused");
    if (waitSeconds === null) hooks.refused(source.name, reason, isLogged ? address : null);
    sendEarly(
      request,
      response,
      waitSeconds === null ? text : tooManyFailures(waitSeconds),
      waitSeconds !== null,
    );
  }

  /** 200 whatever the items are: Meta repeats anything else for a week. */
  function answerCounts(exchange: Exchange, counts: ItemCounts | null): void {
    if (counts === null) {
      answer(exchange, "overloaded", refusals.overloaded);
      return;
    }
    const { events, quarantined, unassigned } = counts;
    const outcome =
      events > 0
        ? "accepted"
        : quarantined > 0
          ? "quarantined"
          : unassigned > 0
            ? "unassigned"
            : "duplicate";
    answer(exchange, outcome, jsonAnswer(200, { status: "accepted", ...counts }));
  }

  function failure(exchange: Exchange, error: unknown): void {
    if (error instanceof Error && error.name === "StoreUnavailable")
      answer(exchange, "unavailable", refusals.unavailable);
    else if (error instanceof RelayError)
      answer(exchange, "proxy-failed", errorAnswer(error.code, error.message));
    else {
      hooks.failed(exchange.source.name, error);
      answer(exchange, "failed", refusals.failed);
    }
  }

  /** Never rejects. */
  function store(exchange: Exchange, item: ReceivedItem): Promise<void> {
    const fail = (error: unknown): void => failure(exchange, error);
    if (item.kind === "event")
      return accepting
        .event(item.event)
        .then(
          ({ result }) => answer(exchange, result, result === "accepted" ? accepted : duplicate),
          fail,
        );
    const { body } = item;
    return accepting.quarantine(body).then(() => {
      hooks.quarantined(body);
      answer(
        exchange,
        "quarantined",
        jsonAnswer(202, { status: "quarantined", error: body.error }),
      );
    }, fail);
  }

  return {
    failure,
    handshake(exchange: Exchange, { verifyTokens }: SeveralSettings): void {
      const { isRight, answer: text } = answerHandshake(exchange.request.url ?? "", verifyTokens);
      if (!isRight) {
        refuse(exchange, "wrong-verify-token", text, now());
        return;
      }
      hooks.received(exchange.source.name, "handshake");
      sendEarly(exchange.request, exchange.response, text);
    },
    /** `at`: when it was verified, in unix ms. */
    verified(exchange: Exchange, verified: VerifiedRequest, bytes: number, at: number): void {
      const { source, response } = exchange;
      const fail = (error: unknown): void => failure(exchange, error);
      if (verified.kind === "refused") refuse(exchange, verified.reason, badSignature, at);
      else if (verified.kind === "several") {
        several
          .take(source.name, bytes, verified.read)
          .then((counts) => answerCounts(exchange, counts), fail);
      } else if (verified.kind === "large") {
        several
          .inTurn(source.name, bytes, async () => {
            await store(exchange, verified.read());
            return true;
          })
          .then((done) => {
            if (done === null) answer(exchange, "overloaded", refusals.overloaded);
          }, fail);
      } else if (verified.kind === "event" && source.mode === "proxy") {
        const passed = accepting.proxy(verified.event).then((given) => {
          // A sender that stops reading would otherwise occupy a slot and up to a megabyte forever.
          response.setTimeout(limits.requestTimeout);
          answer(exchange, "proxied", proxiedAnswer(given));
        });
        // Also catches a downstream answer that cannot be sent, such as an invalid header.
        passed.catch(fail);
      } else void store(exchange, verified);
    },
  };
}

function bodyLimitOf({ several: settings }: InboundSource, least: number): number {
  return settings === undefined
    ? least
    : Math.max(least, formatOf(settings.format).largestBody ?? 0);
}

const tooManyFailures = (waitSeconds: number): Answer =>
  errorAnswer("too_many_bad_signatures", "too many bad signatures from this address", [
    "retry-after",
    String(waitSeconds),
  ]);

/** 204 and 304 have no body, so no `content-length`. */
function proxiedAnswer({ status, contentType, contentEncoding, body }: ProxiedAnswer): Answer {
  const headers = status === 204 || status === 304 ? [] : ["content-length", String(body.length)];
  if (contentType !== null) headers.push("content-type", contentType);
  if (contentEncoding !== null) headers.push("content-encoding", contentEncoding);
  return { status, headers, body };
}

function byName({
  sources,
  traced,
}: Pick<ReceiverParts, "sources" | "traced">): Map<string, Endpoint> {
  return new Map(
    sources.map((source) => [
      source.name,
      { source, verify: createRequestVerifier(source, traced) },
    ]),
  );
}
