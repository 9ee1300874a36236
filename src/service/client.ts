import { createRedactor } from "../model/redact.ts";
import { createPool } from "../net/connect.ts";
import type { TlsSettings } from "../net/tls.ts";
import { defaultConcurrency } from "./admission.ts";
import { type CallContext, type CallOptions, call, closed, defaultRetry, type RetrySettings, type ServiceRequest } from "./call.ts";
import { type Endpoint, endpoints, pathPart, type RunBody, type SendBody } from "./endpoints.ts";
import { isApiKey, readServiceUrl } from "./settings.ts";

type Shared = Pick<CallContext, "apiKey" | "admission" | "clock" | "random"> & Partial<Pick<CallContext, "timeoutMs" | "maxBodyBytes">>;

export interface ServiceClientSettings extends Shared {
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

/** Calls reject with a `ServiceError` or their signal's reason. Throws a TypeError for an invalid base URL or key. */
export function createServiceClient(settings: ServiceClientSettings) {
  const { baseUrl, tls, connections = defaultConcurrency, ...given } = settings;
  const { origin, root } = readServiceUrl(baseUrl);
  if (!isApiKey(given.apiKey)) throw new TypeError("apiKey is empty or holds characters that no header carries");
  const { timeoutMs = 10_000, maxBodyBytes = mostBytes } = given;
  const pool = createPool(new URL(origin), { connections, connectWithin: timeoutMs, allowPrivate: true, tls });
  const closing = new AbortController();
  const calling: CallContext = {
    ...given,
    pool,
    root,
    retry: { ...defaultRetry, ...given.retry },
    timeoutMs,
    maxBodyBytes,
    redact: given.redact ?? createRedactor(given.apiKey).text,
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
    sendMessage: (body: SendBody, options?: CallOptions) => run(endpoints.sendMessage, { path: "/messages", body }, options),
    /** `id`: the service's, not a wamid. */
    getMessage: async (id: string, options?: CallOptions) => run(endpoints.getMessage, { path: `/messages/${pathPart(id)}` }, options),
    me: (options?: CallOptions) => run(endpoints.me, { path: "/me" }, options),
    /** The service does not dedupe: keep `runId`. */
    startRun: async (automationId: string, body: RunBody = {}, options?: CallOptions) =>
      run(endpoints.startRun, { path: `/automations/${pathPart(automationId)}/runs`, body }, options),
    /** Ends calls that wait, and cuts those in flight after `withinMs` if given. May be called again with a smaller one. */
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
