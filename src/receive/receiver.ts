import type { IncomingMessage, ServerResponse } from "node:http";
import { RelayError } from "../event/errors.ts";
import type { QuarantinedBody, ReceivedEvent } from "../event/received.ts";
import type { Accepting } from "./accepting.ts";
import { type Answer, errorAnswer, jsonAnswer, send } from "./answer.ts";
import { createBadSignatures } from "./bad-signatures.ts";
import { createProver, type InboundSource, type Proved, type RawRequest } from "./prove.ts";
import { readBody } from "./read-body.ts";
import type { SignatureRefusal } from "./verify-signature.ts";

/** What became of a webhook request. */
export type ReceiveOutcome =
  | "accepted"
  | "duplicate"
  | "quarantined"
  | "refused"
  | "too-large"
  | "unknown-source"
  | "overloaded"
  | "unavailable"
  | "gone"
  | "proxied";

export interface ReceiverParts {
  readonly sources: readonly InboundSource[];
  readonly accepting: Accepting;
  readonly now: () => number;
  /** The client's address, through proxies that are trusted. */
  readonly address: (request: IncomingMessage) => string;
  readonly limits: { readonly bodyLimit: number; readonly maxInFlight: number; readonly badSignatureLimit: number };
  readonly hooks: ReceiverHooks;
}

export interface ReceiverHooks {
  received(source: string, outcome: ReceiveOutcome): void;
  refused(source: string, reason: SignatureRefusal, address: string): void;
  quarantined(body: QuarantinedBody): void;
  /** A fault nobody foresaw; answered 500. */
  failed(source: string, error: unknown): void;
}

export interface Receiver {
  /** Takes the request when its path is under `/webhooks/`; false when it is somebody else's. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
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
  const badSignatures = createBadSignatures(limits.badSignatureLimit);
  let endpoints = byName(parts.sources);
  let inFlight = 0;
  let isDraining = false;

  function handle(request: IncomingMessage, response: ServerResponse): boolean {
    const url = request.url ?? "";
    if (!url.startsWith(prefix)) return false;
    const query = url.indexOf("?");
    // Compared as it stands: no decoding and no dot segments, so a path can mean one source only.
    const name = query === -1 ? url.slice(prefix.length) : url.slice(prefix.length, query);
    const endpoint = endpoints.get(name);
    if (isDraining) {
      // Read to its end first: the connection is closed with the answer, and a reset would overtake it.
      request.resume().once("end", () => send(response, draining, true));
      return true;
    }
    const early = refuseEarly(endpoint, request);
    if (early !== null || endpoint === undefined) {
      // Not closed: what is still coming in of the body is read and dropped (bounded by the request timeout), because a
      // reset would reach the sender before the answer does.
      send(response, early ?? unknownSource);
      return true;
    }
    inFlight += 1;
    response.once("close", () => {
      inFlight -= 1;
    });
    readBody(request, limits.bodyLimit, (result) => {
      if (result.kind === "body") {
        respond(endpoint, request, response, result.body);
        return;
      }
      hooks.received(endpoint.source.name, result.kind);
      if (result.kind === "too-large") send(response, tooLarge);
      else response.destroy();
    });
    return true;
  }

  function refuseEarly(endpoint: Endpoint | undefined, request: IncomingMessage): Answer | null {
    if (endpoint === undefined) {
      hooks.received("-", "unknown-source");
      return unknownSource;
    }
    if (request.method !== "POST") return postOnly;
    if (inFlight >= limits.maxInFlight) {
      hooks.received(endpoint.source.name, "overloaded");
      return overloaded;
    }
    return null;
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
      accepting.event(proved.event).then((outcome) => {
        hooks.received(source.name, outcome);
        // Draining, the connection goes with its last answer: one kept alive would hold up the end.
        send(response, outcome === "accepted" ? accepted : duplicate, isDraining);
      }, fail);
    }
  }

  function refuse(source: InboundSource, reason: SignatureRefusal, request: IncomingMessage, response: ServerResponse, at: number): void {
    const address = parts.address(request);
    const wait = badSignatures.count(address, at);
    hooks.received(source.name, "refused");
    if (wait === null) {
      hooks.refused(source.name, reason, address);
      send(response, badSignature);
    } else {
      send(
        response,
        errorAnswer("too_many_bad_signatures", "too many bad signatures from this address", ["retry-after", String(wait)]),
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
    accepting.proxy(event).then((answer) => {
      hooks.received(source.name, "proxied");
      const type = answer.contentType === null ? [] : ["content-type", answer.contentType];
      send(response, { status: answer.status, headers: [...type, "content-length", String(answer.body.length)], body: answer.body });
    }, fail);
  }

  function answerFailure(source: string, response: ServerResponse, error: unknown): void {
    if (error instanceof Error && error.name === "StoreUnavailable") {
      hooks.received(source, "unavailable");
      send(response, unavailable);
      return;
    }
    if (error instanceof RelayError) {
      hooks.received(source, "proxied");
      send(response, errorAnswer(error.code, error.message));
      return;
    }
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

function byName(sources: readonly InboundSource[]): Map<string, Endpoint> {
  return new Map(sources.map((source) => [source.name, { source, prove: createProver(source) }]));
}
