import { inspect } from "node:util";
import { maskText } from "../event/mask.ts";
import type { CallCap } from "./admission.ts";
import type { PlanCause } from "./endpoints.ts";

/** One fault of a request's body or parameters: which field, and why. */
export interface ValidationProblem {
  /** Field names and indexes joined by dots; empty for the whole body. */
  readonly path: string;
  readonly message: string;
}

/** What went wrong, by the codes of the document ("Errors", "Limits"); switch on `kind`. */
export type ServiceFailure =
  /** 400. Empty `problems` where the service gave its reason as text only. */
  | { readonly kind: "validation"; readonly problems: readonly ValidationProblem[] }
  /** 401: the key is missing, misspelled or revoked. */
  | { readonly kind: "unauthenticated" }
  /** 402: the plan does not permit it; `cause.suggested` would. `cause` is null where the body has none. */
  | { readonly kind: "plan"; readonly cause: PlanCause | null }
  /** 404 */
  | { readonly kind: "not-found" }
  /** 409: cannot be done as things stand (24-hour window closed, template not approved, run in progress …). */
  | { readonly kind: "conflict" }
  /** 429 of a per-minute cap. `cap` is null when the answer does not tell which one. */
  | { readonly kind: "rate-limited"; readonly retryAfterMs: number | null; readonly limit: number | null; readonly cap: CallCap | null }
  /** 429 of a monthly quota. `until`: unix milliseconds of its renewal. `cause` is null only when raised without asking. */
  | { readonly kind: "quota"; readonly cause: PlanCause | null; readonly until: number }
  /** 429: this address has sent too many bad keys, and is blocked for a minute. */
  | { readonly kind: "blocked" }
  /** Not asked: what other processes of the account let go cannot be known now, and so not whether the caps leave room. */
  | { readonly kind: "caps-unknown" }
  /** 500 */
  | { readonly kind: "unexpected"; readonly retryAfterMs: number | null }
  /** 502: the network provider did not accept the send; `text` has its reason. */
  | { readonly kind: "rejected" }
  /** No whole answer. `code` is that of the system or of undici (ECONNREFUSED, UND_ERR_SOCKET …), or `closed`: the client is closed. */
  | { readonly kind: "network"; readonly code: string }
  /** No whole answer within `timeoutMs`. */
  | { readonly kind: "timeout"; readonly timeoutMs: number }
  /** A success or a 404 whose body is not what the document says; `problem` says in which way, without what was in it. */
  | { readonly kind: "malformed"; readonly problem: string }
  /** A status that the document does not have, or a 502 in another shape than it shows (a proxy's, perhaps). */
  | { readonly kind: "undocumented" };

export type ServiceErrorKind = ServiceFailure["kind"];

/** `not-done`: the service surely did nothing, so that trying again cannot do it twice; `unknown`: it may have. */
export type CallEffect = "not-done" | "unknown";

interface ServiceErrorFields {
  /** Method and path as the document writes them: `GET /messages/{id}`. */
  readonly endpoint: string;
  /** Null without an answer. */
  readonly status: number | null;
  /** The service's Spanish text as it is, meant to be shown; null where it gave none. */
  readonly text: string | null;
  readonly outcome: CallEffect;
  /** Raised without asking the service, by the admission. */
  readonly local: boolean;
  readonly failure: ServiceFailure;
}

const meanings: Record<ServiceErrorKind, string> = {
  validation: "the service finds the request invalid",
  unauthenticated: "the API key is missing, misspelled or revoked",
  plan: "the account's plan does not permit it",
  "not-found": "no such thing in the account",
  conflict: "cannot be done as things stand",
  "rate-limited": "a per-minute cap is reached",
  quota: "the monthly quota is used up",
  blocked: "this address is blocked for a minute because of bad keys",
  "caps-unknown": "what the account's other processes do cannot be known now",
  unexpected: "the service failed",
  rejected: "the network provider rejected it",
  network: "no answer",
  timeout: "no answer in time",
  malformed: "the answer is not what the service's document says",
  undocumented: "an answer that the service's document does not have",
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
  return `${endpoint}: ${local ? "not asked, " : status === null ? "" : `${status}, `}${meanings[failure.kind]}${detail}`;
}

/**
 * Every call to the service that did not succeed. `message` is for logs and holds no key, phone, wamid or
 * text of the service; those are in `text` and `failure`, which are getters so that a logger that copies
 * an error's own fields does not print people's data, and which `inspect` shows masked.
 */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly kind: ServiceErrorKind;
  readonly endpoint: string;
  readonly status: number | null;
  readonly outcome: CallEffect;
  readonly local: boolean;
  readonly #text: string | null;
  readonly #failure: ServiceFailure;

  constructor(fields: ServiceErrorFields) {
    super(describe(fields));
    this.kind = fields.failure.kind;
    this.endpoint = fields.endpoint;
    this.status = fields.status;
    this.outcome = fields.outcome;
    this.local = fields.local;
    this.#text = fields.text;
    this.#failure = fields.failure;
  }

  get text(): string | null {
    return this.#text;
  }

  get failure(): ServiceFailure {
    return this.#failure;
  }

  /** The same error, raised for `endpoint`: the admission does not know for which call it is asked. */
  at(endpoint: string): ServiceError {
    const { status, text, outcome, local, failure } = this;
    return new ServiceError({ endpoint, status, text, outcome, local, failure });
  }

  /** The same error without secrets: a service may echo the key it was sent. */
  redacted(redact: (text: string) => string): ServiceError {
    const { endpoint, status, text, outcome, local, failure } = this;
    const clean = redactStrings(failure, redact) as ServiceFailure;
    return new ServiceError({ endpoint, status, text: text === null ? null : redact(text), outcome, local, failure: clean });
  }

  [inspect.custom](): string {
    return `${this.stack ?? this.message}${this.text === null ? "" : `\n  text: ${JSON.stringify(maskText(this.text))}`}`;
  }
}

/** What the service wrote: all strings but the words by which this code tells failures from one another. */
function redactStrings(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === "string") return redact(value);
  if (Array.isArray(value)) return value.map((item) => redactStrings(item, redact));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [redact(key), ownWords.has(key) ? item : redactStrings(item, redact)]),
  );
}

const ownWords = new Set(["kind", "cap", "code"]);

/** The refusal of an admission that knows, without asking, that calling would be useless or harmful. The client fills in the endpoint. */
export function refusedUnasked(failure: Extract<ServiceFailure, { kind: "quota" | "unauthenticated" | "blocked" }>): ServiceError {
  return new ServiceError({ endpoint: "any call", status: null, text: null, outcome: "not-done", local: true, failure });
}

/** As `refusedUnasked`, because the store that the processes of the account share their caps by cannot be reached. */
export function capsUnknown(): ServiceError {
  const failure = { kind: "caps-unknown" } as const;
  return new ServiceError({ endpoint: "any call", status: null, text: null, outcome: "not-done", local: true, failure });
}
