import type { Clock } from "../model/clock.ts";
import { createRedactor } from "../model/redact.ts";
import type { Secret } from "../model/secret.ts";
import { createPool } from "../net/connect.ts";
import type { TlsSettings } from "../net/tls.ts";
import { type Admission, defaultConcurrency } from "./admission.ts";
import {
  type CallContext,
  type CallOptions,
  type CallReport,
  call,
  closed,
  defaultRetry,
  type RetrySettings,
  type ServiceRequest,
} from "./call.ts";
import {
  type Account,
  type Endpoint,
  endpoints,
  type Message,
  pathPart,
  type Receipt,
  type Run,
  type RunBody,
  type SendBody,
  type Template,
} from "./endpoints.ts";
import { isApiKey, readServiceUrl } from "./settings.ts";

export interface ServiceClientSettings {
  /** May have a path and a slash at its end; the API root is `{baseUrl}/api/v1`. */
  readonly baseUrl: string;
  readonly apiKey: Secret;
  /** Every attempt waits for its permit. */
  readonly admission: Admission;
  readonly clock: Clock;
  /** From 0 up to 1. */
  readonly random?: () => number;
  readonly retry?: Partial<RetrySettings>;
  readonly tls?: TlsSettings | undefined;
  /** Per attempt, from waiting for a connection to the last byte; default 10 s. */
  readonly timeoutMs?: number;
  /** Of an answer; default 8 MiB, because all templates come on one page. */
  readonly maxBodyBytes?: number;
  /** Most at once; default 8. No fewer than the calls that the admission dispatches at once. */
  readonly connections?: number;
  /** Removes secrets from error texts, which may echo the request. Default: removes the API key. */
  readonly redact?: ((text: string) => string) | undefined;
  /** Called after every attempt that was dispatched. */
  readonly onCall?: (report: CallReport) => void;
}

/**
 * The messaging service, endpoint by endpoint (messaging-service-api.md). Every call rejects with a
 * `ServiceError` or with its signal's reason. Fields beyond the documented ones are passed on unchanged.
 */
export interface ServiceClient {
  /** Not idempotent: retried only when the service certainly did nothing. */
  sendMessage(body: SendBody, options?: CallOptions): Promise<Receipt>;
  /** @param id the service's, not a wamid */
  getMessage(id: string, options?: CallOptions): Promise<Message>;
  /** All approved templates, newest first. */
  listTemplates(options?: CallOptions): Promise<Template[]>;
  me(options?: CallOptions): Promise<Account>;
  /** Not idempotent, and the service does not dedupe: keep `runId`. Retried only when the service certainly did nothing. */
  startRun(automationId: string, body?: RunBody, options?: CallOptions): Promise<Run>;
  /**
   * Refuses further calls, ends those that wait, and resolves when the requests in flight have ended: each within its
   * `timeoutMs`, and all within `withinMs` if given. The rest fails with the code `closed`; the outcome of a request
   * that was sent is then unknown. Call it again with a smaller `withinMs` to close sooner.
   */
  close(withinMs?: number): Promise<void>;
}

/** Throws a TypeError for an invalid base URL or key. */
export function createServiceClient(settings: ServiceClientSettings): ServiceClient {
  const { origin, root } = readServiceUrl(settings.baseUrl);
  if (!isApiKey(settings.apiKey)) throw new TypeError("apiKey is empty or holds characters that no header carries");
  const { timeoutMs = 10_000 } = settings;
  const pool = createPool(new URL(origin), {
    connections: settings.connections ?? defaultConcurrency,
    connectWithin: timeoutMs,
    allowPrivate: true,
    tls: settings.tls,
  });
  const closing = new AbortController();
  const calling: CallContext = {
    pool,
    root,
    apiKey: settings.apiKey,
    admission: settings.admission,
    clock: settings.clock,
    random: settings.random ?? Math.random,
    retry: { ...defaultRetry, ...settings.retry },
    timeoutMs,
    maxBodyBytes: settings.maxBodyBytes ?? 8 * 1024 ** 2,
    redact: settings.redact ?? createRedactor(settings.apiKey).text,
    onCall: settings.onCall ?? (() => {}),
    closing: closing.signal,
  };

  const inFlight = new Set<Promise<unknown>>();
  function run<T>(endpoint: Endpoint<T>, request: ServiceRequest, options: CallOptions | undefined): Promise<T> {
    const running = call(calling, endpoint, request, options);
    const forget = () => void inFlight.delete(running);
    inFlight.add(running);
    running.then(forget, forget);
    return running;
  }

  return {
    sendMessage: (body, options) => run(endpoints.sendMessage, { path: "/messages", body }, options),
    getMessage: async (id, options) => run(endpoints.getMessage, { path: `/messages/${pathPart(id)}` }, options),
    listTemplates: async (options) => (await run(endpoints.listTemplates, { path: "/templates" }, options)).data,
    me: (options) => run(endpoints.me, { path: "/me" }, options),
    startRun: async (automationId, body = {}, options) =>
      run(endpoints.startRun, { path: `/automations/${pathPart(automationId)}/runs`, body }, options),
    async close(withinMs) {
      closing.abort(closed);
      const cut = () => void pool.destroy(closed);
      const cancel = withinMs === undefined ? () => {} : calling.clock.after(withinMs, cut);
      await Promise.allSettled(inFlight);
      cancel();
      await pool.destroy(closed);
    },
  };
}
