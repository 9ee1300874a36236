import { inspect } from "node:util";
import { maskText } from "../model/mask.ts";
import type { CallCap, PlanCause } from "./endpoints.ts";

export interface ValidationProblem {
  /** Field names and indexes joined by dots; empty for the whole body. */
  readonly path: string;
  readonly message: string;
}

export type ServiceFailure =
  /** Empty `problems`: the reason is in the text only. */
  | { readonly kind: "validation"; readonly problems: readonly ValidationProblem[] }
  | { readonly kind: "unauthenticated" }
  | { readonly kind: "plan"; readonly cause: PlanCause | null }
  | { readonly kind: "not-found" }
  | { readonly kind: "conflict" }
  /** `cap`: null if the answer does not name it. */
  | {
      readonly kind: "rate-limited";
      readonly retryAfterMs: number | null;
      readonly limit: number | null;
      readonly cap: CallCap | null;
    }
  /** `until`: the renewal. `cause`: null when raised locally. */
  | { readonly kind: "quota"; readonly cause: PlanCause | null; readonly until: number }
  | { readonly kind: "blocked" }
  /** Raised locally: the store through which processes share the caps is unavailable. */
  | { readonly kind: "caps-unknown" }
  | { readonly kind: "unexpected" }
  /** By the network provider; `text` has its reason. */
  | { readonly kind: "rejected" }
  /** `code`: of the system or of undici, or `closed`: the client is closed. */
  | { readonly kind: "network"; readonly code: string }
  | { readonly kind: "timeout"; readonly timeoutMs: number }
  /** A success or a 404. `problem` does not quote the body. */
  | { readonly kind: "malformed"; readonly problem: string }
  /** Another status, or a 502 that may come from a proxy. */
  | { readonly kind: "undocumented" };

type ServiceErrorKind = ServiceFailure["kind"];

/** `not-done`: a retry cannot act twice; `unknown`: the service may have acted. */
export type CallEffect = "not-done" | "unknown";

interface ServiceErrorFields {
  /** As the document writes it: `GET /messages/{id}`. */
  readonly endpoint: string;
  readonly status: number | null;
  /** The service's Spanish text for people, unchanged; null without one. */
  readonly text: string | null;
  readonly outcome: CallEffect;
  readonly local: boolean;
  readonly failure: ServiceFailure;
}

const meanings: Record<ServiceErrorKind, string> = {
  validation: "the service finds the request invalid",
  unauthenticated: "the API key is missing, misspelled or revoked",
  plan: "the account's plan does not permit it",
  "not-found": "not found in the account",
  conflict: "not possible in the current state",
  "rate-limited": "a per-minute cap is reached",
  quota: "the monthly quota is used up",
  blocked: "this address is blocked for a minute because of bad keys",
  "caps-unknown": "the calls of the account's other processes are unknown now",
  unexpected: "the service failed",
  rejected: "the network provider rejected it",
  network: "no answer",
  timeout: "no answer in time",
  malformed: "the answer does not match the service's document",
  undocumented: "an answer that the service's document does not describe",
};

function describe({ endpoint, status, local, failure }: ServiceErrorFields): string {
  const detail =
    failure.kind === "malformed"
      ? `: ${failure.problem}`
      : failure.kind === "network"
        ? ` (${failure.code})`
        : failure.kind === "timeout"
          ? ` (${failure.timeoutMs} ms)`
          : "";
  return `${endpoint}: ${local ? "not called, " : status === null ? "" : `${status}, `}${meanings[failure.kind]}${detail}`;
}

/**
 * `message` is for logs and holds no key, phone, wamid or text of the service. `text` and `failure`
 * may: they are getters, so that a logger that copies own fields does not print them, and `inspect`
 * masks them.
 */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly kind: ServiceErrorKind;
  readonly endpoint: string;
  readonly status: number | null;
  readonly outcome: CallEffect;
  readonly local: boolean;
  readonly #fields: ServiceErrorFields;

  constructor(fields: ServiceErrorFields) {
    super(describe(fields));
    this.kind = fields.failure.kind;
    this.endpoint = fields.endpoint;
    this.status = fields.status;
    this.outcome = fields.outcome;
    this.local = fields.local;
    this.#fields = fields;
  }

  get text(): string | null {
    return this.#fields.text;
  }

  get failure(): ServiceFailure {
    return this.#fields.failure;
  }

  /** The client was closed before it called: a reload replaced it, or the relay stops. */
  get isClosed(): boolean {
    const { failure, outcome } = this.#fields;
    return failure.kind === "network" && failure.code === "closed" && outcome === "not-done";
  }

  /** The same error for `endpoint`, which the admission does not know. */
  at(endpoint: string): ServiceError {
    return new ServiceError({ ...this.#fields, endpoint });
  }

  [inspect.custom](): string {
    return `${this.stack ?? this.message}${this.text === null ? "" : `\n  text: ${JSON.stringify(maskText(this.text))}`}`;
  }
}

/** Raised locally. The client fills in the endpoint. */
export function localRefusal(
  failure: Extract<
    ServiceFailure,
    { kind: "quota" | "unauthenticated" | "blocked" | "caps-unknown" }
  >,
) {
  return new ServiceError({
    endpoint: "any call",
    status: null,
    text: null,
    outcome: "not-done",
    local: true,
    failure,
  });
}
