import type { Dispatcher } from "undici";
import { type Clock, growingWait, pause, withJitter } from "../model/clock.ts";
import { createRedactor } from "../model/redact.ts";
import type { Secret } from "../model/secret.ts";
import { createPool, type HttpPool } from "../net/connect.ts";
import { codeOf, type Exchanged, exchange } from "../net/exchange.ts";
import type { TlsSettings } from "../net/tls.ts";
import { decodeAnswer, longestErrorBody, type Read, readAnswer } from "./answers.ts";
import {
  type Admission,
  type CallOutcome,
  defaultConcurrency,
  type Endpoint,
  endpoints,
  pathPart,
  type RunBody,
  type SendBody,
} from "./endpoints.ts";
import { ServiceError, type ServiceFailure } from "./errors.ts";

interface CallSettings {
  readonly apiKey: Secret;
  readonly admission: Admission;
  readonly clock: Clock;
  readonly random: () => number;
}

export interface ServiceClientSettings extends CallSettings, Partial<CallLimits> {
  /** May have a path and a slash at its end; the API root is `{baseUrl}/api/v1`. */
  readonly baseUrl: string;
  readonly retry?: Partial<RetrySettings>;
  readonly tls?: TlsSettings | undefined;
  /** No fewer than the calls that the admission dispatches at once. Default: 8. */
  readonly connections?: number;
  /** Default: removes the API key. */
  readonly redact?: CallContext["redact"] | undefined;
}

export type ServiceClient = ReturnType<typeof createServiceClient>;

const mostBytes = 8 * 1024 ** 2;

/** Calls reject with a `ServiceError` or their signal's reason. */
export function createServiceClient(settings: ServiceClientSettings) {
  const { baseUrl, tls, connections = defaultConcurrency, ...given } = settings;
  const url = new URL(baseUrl);
  const { timeoutMs = 10_000, maxBodyBytes = mostBytes } = given;
  const pool = createPool(url, { connections, connectWithin: timeoutMs, allowPrivate: true, tls });
  const closing = new AbortController();
  const calling: CallContext = {
    ...given,
    pool,
    root: `${url.pathname.replace(/\/+$/, "")}/api/v1`,
    retry: { ...defaultRetry, ...given.retry },
    timeoutMs,
    maxBodyBytes,
    redact: given.redact ?? createRedactor(given.apiKey).text,
    closing: closing.signal,
  };

  const inFlight = new Set<Promise<unknown>>();
  function run<T>(
    endpoint: Endpoint<T>,
    request: ServiceRequest,
    options: CallOptions | undefined,
  ): Promise<T> {
    const running = call(calling, endpoint, request, options);
    const forget = () => void inFlight.delete(running);
    inFlight.add(running);
    running.then(forget, forget);
    return running;
  }

  return {
    sendMessage: (body: SendBody, options?: CallOptions) =>
      run(endpoints.sendMessage, { path: "/messages", body }, options),
    /** `id`: the service's, not a wamid. */
    getMessage: async (id: string, options?: CallOptions) =>
      run(endpoints.getMessage, { path: `/messages/${pathPart(id)}` }, options),
    me: (options?: CallOptions) => run(endpoints.me, { path: "/me" }, options),
    /** The service does not dedupe: keep `runId`. */
    startRun: async (automationId: string, body: RunBody = {}, options?: CallOptions) =>
      run(
        endpoints.startRun,
        { path: `/automations/${pathPart(automationId)}/runs`, body },
        options,
      ),
    /**
     * Ends calls that wait, and cuts those in flight after `withinMs` if given. May be called again
     * with a smaller one.
     */
    async close(withinMs?: number): Promise<void> {
      closing.abort(closed);
      const cut = () => void pool.destroy(closed);
      const cancel = withinMs === undefined ? () => {} : given.clock.after(withinMs, cut);
      await Promise.allSettled(inFlight);
      cancel();
      await pool.destroy(closed);
    },
  };
}

export interface CallOptions {
  /**
   * Ends the call only while it waits, for room or for its next attempt: with the last attempt's
   * error, or the signal's reason before the first. The service did nothing then.
   */
  readonly signal?: AbortSignal;
  readonly watch?: AttemptWatch;
}

/** Awaited; when one rejects, nothing more is sent and the call rejects with the same reason. */
interface AttemptWatch {
  starting(): Promise<void>;
  repeating(error: ServiceError): Promise<void>;
}

interface CallLimits {
  /** Per attempt, from waiting for a connection to the last byte. */
  readonly timeoutMs: number;
  readonly maxBodyBytes: number;
}

interface CallContext extends CallSettings, CallLimits {
  readonly pool: HttpPool;
  readonly root: string;
  readonly retry: RetrySettings;
  /** Errors may echo the request. */
  readonly redact: (text: string) => string;
  readonly closing: AbortSignal;
}

const closed = Object.assign(new Error("the client is closed"), { code: "closed" });

/** `path`: below the API root, with ids and query. */
interface ServiceRequest {
  readonly path: string;
  readonly body?: unknown;
}

/** Rejects with a {@link ServiceError} or the signal's reason. */
async function call<T>(
  calling: CallContext,
  endpoint: Endpoint<T>,
  request: ServiceRequest,
  options: CallOptions = {},
): Promise<T> {
  const { signal } = options;
  signal?.throwIfAborted();
  if (calling.closing.aborted) throw closedError(endpoint);
  const sending = dispatchOptions(calling, endpoint, request);
  const wait = signal === undefined ? calling.closing : AbortSignal.any([signal, calling.closing]);
  let last: ServiceError | null = null;
  try {
    for (let attempt = 1; ; attempt++) {
      const read = await attemptOnce(calling, endpoint, sending, options, wait);
      if (read.ok) return read.value;
      last = read.error;
      const ms = retryWait(last, attempt, calling.retry, calling.random());
      if (ms === null) throw last;
      await options.watch?.repeating(last);
      if (ms > 0) await pause(calling.clock, ms, wait);
    }
  } catch (error) {
    // A cap rejected it, so a send goes on with the client of a reload.
    if (error === closed && (last === null || last.kind === "rate-limited"))
      throw closedError(endpoint);
    // The wait ended early: the last attempt's error says more than that.
    const isEnded = error === closed || (signal?.aborted === true && error === signal.reason);
    throw isEnded ? (last ?? error) : error;
  }
}

async function attemptOnce<T>(
  calling: CallContext,
  endpoint: Endpoint<T>,
  sending: Dispatcher.DispatchOptions,
  options: CallOptions,
  wait: AbortSignal,
): Promise<Read<T>> {
  const { admission, clock, timeoutMs, maxBodyBytes } = calling;
  const permit = await admission
    .enter({ operation: endpoint.operation, signal: wait })
    .catch((error: unknown) => {
      throw error instanceof ServiceError ? error.at(endpoint.name) : error;
    });
  let settlement: CallOutcome = { type: "not-sent" };
  try {
    await options.watch?.starting();
    settlement = { type: "unknown" };
    const exchanged = await exchange(calling.pool, sending, {
      timeoutMs,
      maxBytes: maxBodyBytes,
      after: clock.after,
    });
    const read = readExchanged(calling, endpoint, exchanged);
    settlement = read.ok ? { type: "answered" } : settlementOf(read.error);
    return read;
  } finally {
    permit.settle(settlement);
  }
}

function dispatchOptions(
  calling: CallContext,
  { method }: Endpoint<unknown>,
  { path, body }: ServiceRequest,
): Dispatcher.DispatchOptions {
  const headers = {
    authorization: `Bearer ${calling.apiKey.reveal()}`,
    accept: "application/json",
    "accept-encoding": "identity",
    "user-agent": "wamid-relay",
  };
  const options = { method, path: `${calling.root}${path}` };
  if (body === undefined) return { ...options, headers };
  return {
    ...options,
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
  };
}

function readExchanged<T>(
  { timeoutMs, maxBodyBytes, clock, redact }: CallContext,
  endpoint: Endpoint<T>,
  exchanged: Exchanged,
): Read<T> {
  if (exchanged.kind === "failed")
    return unanswered(endpoint, exchanged.sent, { kind: "network", code: codeOf(exchanged.error) });
  if (exchanged.kind !== "answered")
    return unanswered(endpoint, exchanged.sent, { kind: "timeout", timeoutMs });
  const { status, headers, body, isCut } = exchanged;
  if (isCut)
    return readAnswer(
      endpoint,
      { status, headers, bytes: Buffer.alloc(0) },
      clock.now(),
      `the body is longer than ${maxBodyBytes} bytes`,
    );
  const { answer, problem } = decodeAnswer({ status, headers, bytes: body }, maxBodyBytes);
  const { bytes } = answer;
  const isShown = (status < 200 || status > 299) && bytes.length <= longestErrorBody;
  const shown = isShown
    ? Buffer.from(redact(Buffer.from(bytes).toString("latin1")), "latin1")
    : bytes;
  return readAnswer(endpoint, { ...answer, bytes: shown }, clock.now(), problem);
}

function unanswered(
  endpoint: Endpoint<unknown>,
  sent: boolean,
  failure: ServiceFailure,
): { ok: false; error: ServiceError } {
  const outcome = sent ? "unknown" : "not-done";
  return {
    ok: false,
    error: new ServiceError({
      endpoint: endpoint.name,
      status: null,
      text: null,
      outcome,
      local: false,
      failure,
    }),
  };
}

function closedError(endpoint: Endpoint<unknown>): ServiceError {
  return unanswered(endpoint, false, { kind: "network", code: "closed" }).error;
}

/** Shown to people and kept in shared state, so a longer or odd name counts as none. */
const resourceName = /^[\w.-]{1,40}$/;

function settlementOf(error: ServiceError): CallOutcome {
  const { failure } = error;
  switch (failure.kind) {
    case "rate-limited":
      return {
        type: "rate-limited",
        cap: failure.cap,
        retryAfterMs: failure.retryAfterMs,
        limit: failure.limit,
      };
    case "quota":
      return {
        type: "quota-used-up",
        resource: resourceName.exec(failure.cause?.resource ?? "")?.[0] ?? null,
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

export interface RetrySettings {
  readonly attempts: number;
  /**
   * Whether to repeat a send that the provider rejected (502) with this text. Default: never,
   * because the document shows no text of a temporary reason, and each attempt counts against the
   * messages cap.
   */
  readonly isTemporary: (text: string) => boolean;
}

export const defaultRetry: RetrySettings = { attempts: 4, isTemporary: () => false };

/** Of the wait after a failed attempt, doubled each time. */
const firstMs = 1000;
const longestMs = 60_000;
/** A longer `Retry-After` ends the call: a cap is "released by itself" within its window. */
const longestRetryAfterMs = 10 * 60_000;

/**
 * The wait before the next attempt enters in ms; null: do not retry. Only where the service did
 * nothing ("Safe retries", "Client guidance"). `attempt`: those made so far. `random`: from 0 up to
 * 1.
 */
export function retryWait(
  error: ServiceError,
  attempt: number,
  { attempts, isTemporary }: RetrySettings,
  random: number,
): number | null {
  const { failure, outcome, text } = error;
  if (attempt >= attempts || outcome !== "not-done") return null;
  switch (failure.kind) {
    case "rate-limited":
      // The limiter holds the cap until then.
      return (failure.retryAfterMs ?? 0) > longestRetryAfterMs ? null : 0;
    case "rejected":
      if (!isTemporary(text ?? "")) return null;
      break;
    case "network":
      if (failure.code === "closed") return null;
      break;
    case "timeout":
      break;
    default:
      return null;
  }
  return withJitter(growingWait(attempt, firstMs, longestMs), random);
}
