import type { Dispatcher } from "undici";
import { type Clock, pause } from "../model/clock.ts";
import type { Secret } from "../model/secret.ts";
import type { Admission, CallOutcome, CallPriority } from "./admission.ts";
import { type Answer, type Read, readAnswer } from "./answers.ts";
import type { Endpoint } from "./endpoints.ts";
import { ServiceError, type ServiceErrorKind, type ServiceFailure } from "./errors.ts";
import { decodeAnswer, type Exchanged, exchange } from "./exchange.ts";
import { httpDate } from "./renewal.ts";
import { type RetrySettings, retryWait } from "./retry.ts";

export interface CallOptions {
  readonly priority?: CallPriority;
  /** Ends the call at any point. It then rejects with the signal's reason, and the service may have carried it out. */
  readonly signal?: AbortSignal;
  /** Per attempt, in milliseconds, without the wait for room under the caps. */
  readonly timeoutMs?: number;
  /**
   * Ends the call only while it waits for room under the caps or for its next attempt; a request in flight continues.
   * The call then rejects with the last attempt's error, or with the signal's reason before the first attempt. The service
   * did nothing in either case, unless an attempt at an idempotent endpoint had an unknown outcome.
   */
  readonly patience?: AbortSignal;
  readonly watch?: AttemptWatch;
}

/** For callers that record each attempt. Both are awaited. When one rejects, nothing more is sent and the call rejects with the same reason. */
interface AttemptWatch {
  /** There is room under the caps, and a request is about to leave. */
  starting(): Promise<void>;
  /** The request failed, and another one follows after a wait. */
  repeating(error: ServiceError): Promise<void>;
}

/** One attempt, for metrics. */
export interface CallReport {
  readonly endpoint: string;
  readonly ms: number;
  readonly outcome: ServiceErrorKind | "ok" | "aborted";
}

/** What every call of a client shares. */
export interface CallContext {
  readonly dispatcher: Dispatcher;
  /** Path of the API root. */
  readonly root: string;
  readonly apiKey: Secret;
  readonly admission: Admission;
  readonly clock: Clock;
  readonly random: () => number;
  readonly retry: RetrySettings;
  readonly timeoutMs: number;
  readonly maxBodyBytes: number;
  readonly redact: (text: string) => string;
  readonly onCall: (report: CallReport) => void;
  /** One per call in flight. Aborting it ends the call's waits, not its request. */
  readonly waits: Set<AbortController>;
  isClosed(): boolean;
}

/** A request to an endpoint. `path`: below the API root, with ids and query. */
export interface ServiceRequest {
  readonly path: string;
  readonly body?: unknown;
}

/** Calls an endpoint and retries where that is safe and useful. Rejects with a {@link ServiceError} or the signal's reason. */
export async function call<T>(calling: CallContext, endpoint: Endpoint<T>, request: ServiceRequest, options: CallOptions = {}): Promise<T> {
  const { signal, patience } = options;
  signal?.throwIfAborted();
  patience?.throwIfAborted();
  if (calling.isClosed()) throw closedError(endpoint);
  const sending = dispatchOptions(calling, endpoint, request);
  const wait = new AbortController();
  const giveUp = () => wait.abort(signal?.reason);
  const stopWaiting = () => wait.abort(patience?.reason);
  signal?.addEventListener("abort", giveUp, { once: true });
  patience?.addEventListener("abort", stopWaiting, { once: true });
  calling.waits.add(wait);
  let last: ServiceError | null = null;
  try {
    for (let attempt = 1; ; attempt++) {
      const read = await attemptOnce(calling, endpoint, sending, options, wait.signal);
      if (read.ok) return read.value;
      last = read.error;
      const ms = retryWait(last, attempt, endpoint.idempotent, calling.retry, calling.random());
      if (ms === null) throw last;
      await options.watch?.repeating(last);
      await pause(calling.clock, ms, wait.signal);
    }
  } catch (error) {
    // The wait ended early: the last attempt's error says more than that.
    if (error === closed) throw last ?? closedError(endpoint);
    throw patience?.aborted === true && error === patience.reason ? (last ?? error) : error;
  } finally {
    calling.waits.delete(wait);
    signal?.removeEventListener("abort", giveUp);
    patience?.removeEventListener("abort", stopWaiting);
  }
}

/** The reason of a wait that ended because the client was closed. */
const closed = new Error("the client is closed");

/** Fails all calls that wait for room or for their next attempt. Requests in flight continue. */
export function endWaits({ waits }: CallContext): void {
  for (const wait of waits) wait.abort(closed);
}

async function attemptOnce<T>(
  calling: CallContext,
  endpoint: Endpoint<T>,
  sending: Dispatcher.DispatchOptions,
  options: CallOptions,
  wait: AbortSignal,
): Promise<Read<T>> {
  const { admission, clock } = calling;
  const priority = options.priority ?? endpoint.priority;
  const permit = await admission
    .enter({ cap: endpoint.cap, operation: endpoint.operation, priority, signal: wait })
    .catch((error: unknown) => {
      throw error instanceof ServiceError ? error.at(endpoint.name) : error;
    });
  const startedAt = clock.now();
  let settlement: CallOutcome = { type: "not-sent" };
  let outcome: CallReport["outcome"] = "aborted";
  try {
    await options.watch?.starting();
    settlement = { type: "unknown" };
    const exchanged = await exchange(calling.dispatcher, sending, {
      clock,
      timeoutMs: options.timeoutMs ?? calling.timeoutMs,
      maxBodyBytes: calling.maxBodyBytes,
      signal: options.signal,
    });
    if (exchanged.type === "aborted") {
      if (!exchanged.sent) settlement = { type: "not-sent" };
      throw exchanged.reason;
    }
    const read = readExchanged(calling, endpoint, exchanged, options);
    settlement = read.ok ? { type: "answered" } : settlementOf(read.error, "answer" in exchanged ? exchanged.answer : null);
    outcome = read.ok ? "ok" : read.error.kind;
    return read.ok ? read : { ok: false, error: read.error.redacted(calling.redact) };
  } finally {
    permit.settle(settlement);
    calling.onCall({ endpoint: endpoint.name, ms: clock.now() - startedAt, outcome });
  }
}

function dispatchOptions(calling: CallContext, { method }: Endpoint<unknown>, { path, body }: ServiceRequest): Dispatcher.DispatchOptions {
  const headers = {
    authorization: `Bearer ${calling.apiKey.reveal()}`,
    accept: "application/json",
    "accept-encoding": "identity",
    "user-agent": "wamid-relay",
  };
  const options = { method, path: `${calling.root}${path}` };
  if (body === undefined) return { ...options, headers };
  return { ...options, headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
}

function readExchanged<T>(
  calling: CallContext,
  endpoint: Endpoint<T>,
  exchanged: Exclude<Exchanged, { type: "aborted" }>,
  options: CallOptions,
): Read<T> {
  switch (exchanged.type) {
    case "answered": {
      const { answer, problem } = decodeAnswer(exchanged.answer, calling.maxBodyBytes);
      return readAnswer(endpoint, answer, calling.clock.now(), problem);
    }
    case "too-large":
      return readAnswer(endpoint, exchanged.answer, calling.clock.now(), `the body is longer than ${calling.maxBodyBytes} bytes`);
    case "timeout":
      return unanswered(endpoint, exchanged.sent, { kind: "timeout", timeoutMs: options.timeoutMs ?? calling.timeoutMs });
    case "failed":
      return unanswered(endpoint, exchanged.sent, { kind: "network", code: exchanged.code });
  }
}

/** Without an answer, the outcome depends on whether the request may have been sent. */
function unanswered(endpoint: Endpoint<unknown>, sent: boolean, failure: ServiceFailure): { ok: false; error: ServiceError } {
  const outcome = sent ? "unknown" : "not-done";
  return { ok: false, error: new ServiceError({ endpoint: endpoint.name, status: null, text: null, outcome, local: false, failure }) };
}

function closedError(endpoint: Endpoint<unknown>): ServiceError {
  return unanswered(endpoint, false, { kind: "network", code: "closed" }).error;
}

/** Destroys the connections. Calls in flight fail with the code `closed`; the outcome of those that were sent is unknown. */
export function cutAll({ dispatcher }: CallContext): void {
  // The dispatcher fails each of its requests with this error.
  void dispatcher.destroy(Object.assign(new Error("the client is closed"), { code: "closed" }));
}

/** A resource is shown to people and kept in shared state, so a longer or odd name counts as none. */
const resourceName = /^[\w.-]{1,40}$/;

/** The outcome that the admission receives for a failed call. `answer`: null when there was none. */
function settlementOf(error: ServiceError, answer: Answer | null): CallOutcome {
  const { failure } = error;
  switch (failure.kind) {
    case "rate-limited":
      return { type: "rate-limited", cap: failure.cap, retryAfterMs: failure.retryAfterMs, limit: failure.limit };
    case "quota":
      return {
        type: "quota-used-up",
        resource: resourceName.exec(failure.cause?.resource ?? "")?.[0] ?? null,
        serviceTime: httpDate(answer?.headers["date"]),
      };
    case "unauthenticated":
    case "blocked":
      return { type: failure.kind };
    case "network":
    case "timeout":
      return { type: error.outcome === "not-done" ? "not-sent" : "unknown" };
    case "malformed":
      return { type: "unknown" };
    default:
      return { type: "answered" };
  }
}
