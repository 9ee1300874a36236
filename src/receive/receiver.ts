import type { IncomingMessage, ServerResponse } from "node:http";
import { RelayError } from "../event/errors.ts";
import type { QuarantinedBody, ReceivedEvent } from "../event/received.ts";
import { type Answer, errorAnswer, jsonAnswer, send, sendEarly } from "./answer.ts";
import { createFailureLimit } from "./failure-limit.ts";
import { createBodyReader, type WebhookRequest } from "./read-body.ts";
import type { SignatureRefusal } from "./signature/verify.ts";
import { createProver, type InboundSource, type Proved, type RawRequest } from "./verify-request.ts";

/** What receiving needs of the rest: to make an event durable. Both reject when it cannot be stored now. */
interface Accepting {
  /** Resolves once the event is on the disk, with whether its id was new. */
  event(event: ReceivedEvent): Promise<{ readonly result: "accepted" | "duplicate" }>;
  quarantine(body: QuarantinedBody): Promise<void>;
  /**
   * The exchange of a `mode: proxy` source: stores the request, sends it to the source's destination
   * and resolves with the answer to pass back. Rejects with a `RelayError` when there is none.
   */
  proxy(event: ReceivedEvent): Promise<ProxiedAnswer>;
}

/** What of a downstream's answer is passed back; its other headers are not. */
export interface ProxiedAnswer {
  readonly status: number;
  readonly contentType: string | null;
  readonly contentEncoding: string | null;
  readonly body: Buffer;
}

/** What became of a webhook request; docs/metrics.md says when which. */
export const receiveOutcomes = [
  "accepted",
  "duplicate",
  "quarantined",
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
  /** The client's address, through proxies that are trusted. */
  readonly address: (request: IncomingMessage) => string;
  readonly limits: ReceiverLimits;
  readonly hooks: ReceiverHooks;
}

interface ReceiverLimits {
  readonly bodyLimit: number;
  readonly maxInFlight: number;
  readonly badSignatureLimit: number;
  /** Milliseconds. Here: how long a sender may take to read a proxied answer; Node's server holds requests to it. */
  readonly requestTimeout: number;
}

export interface ReceiverHooks {
  received(source: string, outcome: ReceiveOutcome): void;
  /** Without an address it is not to be logged: there are too many. */
  refused(source: string, reason: SignatureRefusal, address: string | null): void;
  quarantined(body: QuarantinedBody): void;
  /** A fault nobody foresaw; answered 500. */
  failed(source: string, error: unknown): void;
}

export interface Receiver {
  /** Takes the request when its path is under `/webhooks/`; false when it is somebody else's. */
  handle(request: WebhookRequest, response: ServerResponse): boolean;
  /** Other sources and secrets; requests under way finish under the old ones. */
  reload(sources: readonly InboundSource[]): void;
  /** From now on every new request is answered 503, and connections are closed with the answer. */
  drain(): void;
  inFlight(): number;
}

const prefix = "/webhooks/";
const accepted = jsonAnswer(200, { status: "accepted" });
const duplicate = jsonAnswer(200, { status: "duplicate" });
const retrySoon = ["retry-after", "1"];
const unknownSource = errorAnswer("not_found", "no such source");
const postOnly = errorAnswer("method_not_allowed", "webhooks are taken by POST", ["allow", "POST"]);
const tooLarge = errorAnswer("too_large", "the body is larger than this relay takes");
const badSignature = errorAnswer("bad_signature", "the signature does not prove this request");
const overloaded = errorAnswer("overloaded", "too many requests in hand", retrySoon);
const unavailable = errorAnswer("store_unavailable", "the event cannot be stored now", ["retry-after", "5"]);
const draining = errorAnswer("shutting_down", "the relay is stopping", retrySoon);
const internal = errorAnswer("internal", "a fault of the relay; its log says more");

/** Bytes of bodies not yet complete that are held at once; 200,000 events of the usual size, or 64 of the largest by default. */
const roomForBodies = 64 * 1024 ** 2;

interface Endpoint {
  readonly source: InboundSource;
  readonly prove: (request: RawRequest) => Proved;
}

/**
 * The HTTP edge of `POST /webhooks/{source}`, on bare `node:http`: this path carries all the traffic,
 * and Fastify in front of it costs a fifth of the requests per second (bench/ingest).
 */
export function createReceiver(parts: ReceiverParts): Receiver {
  const { accepting, now, limits, hooks } = parts;
  const badSignatures = createFailureLimit(() => limits.badSignatureLimit);
  const readBody = createBodyReader({ bodyLimit: limits.bodyLimit, mostHeld: Math.max(roomForBodies, 4 * limits.bodyLimit) });
  let endpoints = byName(parts.sources);
  let inFlight = 0;
  let isDraining = false;

  function handle(request: WebhookRequest, response: ServerResponse): boolean {
    const url = request.url ?? "";
    if (!url.startsWith(prefix)) return false;
    const query = url.indexOf("?");
    // Compared as it stands: no decoding and no dot segments, so a path can mean one source only.
    const name = query === -1 ? url.slice(prefix.length) : url.slice(prefix.length, query);
    const endpoint = endpoints.get(name);
    if (isDraining) {
      hooks.received(endpoint === undefined ? "-" : name, "stopping");
      sendEarly(request, response, draining, true);
      return true;
    }
    if (endpoint === undefined) {
      hooks.received("-", "unknown-source");
      sendEarly(request, response, unknownSource);
      return true;
    }
    const { source } = endpoint;
    if (request.method !== "POST") {
      hooks.received(source.name, "not-post");
      sendEarly(request, response, postOnly);
      return true;
    }
    if (inFlight >= limits.maxInFlight) {
      hooks.received(source.name, "overloaded");
      sendEarly(request, response, overloaded);
      return true;
    }
    inFlight += 1;
    response.on("close", () => {
      inFlight -= 1;
    });
    readBody(request, (result) => {
      if (result.kind === "body") {
        respond(endpoint, request, response, result.body);
        return;
      }
      hooks.received(source.name, result.kind);
      if (result.kind === "gone") response.destroy();
      else if (result.kind === "overloaded") sendEarly(request, response, overloaded);
      // A body in chunks has no known end: closing tells the sender to stop.
      else sendEarly(request, response, tooLarge, request.headers["transfer-encoding"] !== undefined);
    });
    return true;
  }

  function respond({ source, prove }: Endpoint, request: IncomingMessage, response: ServerResponse, body: Buffer): void {
    const at = now();
    const fail = (error: unknown): void => answerFailure(source.name, response, error);
    let proved: Proved;
    try {
      proved = prove({ method: "POST", url: request.url ?? "", headers: request.headers, body, now: at });
    } catch (error) {
      fail(error);
      return;
    }
    if (proved.kind === "refused") refuse(source, proved.reason, request, response, at);
    else if (proved.kind === "quarantined") quarantine(source, proved.body, response, fail);
    else if (source.mode === "proxy") proxy(source, proved.event, response, fail);
    else {
      accepting.event(proved.event).then(({ result }) => {
        hooks.received(source.name, result);
        // Draining, the connection goes with its last answer: one kept alive would hold up the end.
        send(response, result === "accepted" ? accepted : duplicate, isDraining);
      }, fail);
    }
  }

  function refuse(source: InboundSource, reason: SignatureRefusal, request: IncomingMessage, response: ServerResponse, at: number): void {
    const address = parts.address(request);
    const { waitSeconds, isLogged } = badSignatures.count(address, at);
    hooks.received(source.name, "refused");
    if (waitSeconds === null) {
      hooks.refused(source.name, reason, isLogged ? address : null);
      send(response, badSignature);
    } else {
      send(
        response,
        errorAnswer("too_many_bad_signatures", "too many bad signatures from this address", ["retry-after", String(waitSeconds)]),
        true,
      );
    }
  }

  function quarantine(source: InboundSource, body: QuarantinedBody, response: ServerResponse, fail: (error: unknown) => void): void {
    accepting.quarantine(body).then(() => {
      hooks.received(source.name, "quarantined");
      hooks.quarantined(body);
      send(response, jsonAnswer(202, { status: "quarantined", error: body.error }));
    }, fail);
  }

  function proxy(source: InboundSource, event: ReceivedEvent, response: ServerResponse, fail: (error: unknown) => void): void {
    accepting
      .proxy(event)
      .then((answer) => {
        // A sender that stops reading would hold its place in hand, and up to a megabyte, for ever.
        response.setTimeout(limits.requestTimeout);
        send(response, proxiedAnswer(answer));
        hooks.received(source.name, "proxied");
      })
      // Also for an answer of the downstream that cannot be passed on as it is.
      .catch(fail);
  }

  function answerFailure(source: string, response: ServerResponse, error: unknown): void {
    if (error instanceof Error && error.name === "StoreUnavailable") {
      hooks.received(source, "unavailable");
      send(response, unavailable);
      return;
    }
    if (error instanceof RelayError) {
      hooks.received(source, "proxy-failed");
      send(response, errorAnswer(error.code, error.message));
      return;
    }
    hooks.received(source, "failed");
    hooks.failed(source, error);
    send(response, internal);
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

/** The downstream's answer as the sender gets it. 204 and 304 have no body, and so no length of one. */
function proxiedAnswer({ status, contentType, contentEncoding, body }: ProxiedAnswer): Answer {
  const headers = status === 204 || status === 304 ? [] : ["content-length", String(body.length)];
  if (contentType !== null) headers.push("content-type", contentType);
  if (contentEncoding !== null) headers.push("content-encoding", contentEncoding);
  return { status, headers, body };
}

function byName(sources: readonly InboundSource[]): Map<string, Endpoint> {
  return new Map(sources.map((source) => [source.name, { source, prove: createProver(source) }]));
}
