import { createRequire } from "node:module";
import type { Clock } from "../model/clock.ts";
import { lookupFunction } from "../model/name-lookup.ts";
import { createRedactor } from "../model/redact.ts";
import type { Secret } from "../model/secret.ts";
import { type Admission, defaultConcurrency } from "./admission.ts";
import { malformed } from "./answers.ts";
import { type CallContext, type CallOptions, type CallReport, call, cutAll, endWaits, type ServiceRequest } from "./call.ts";
import {
  type Account,
  type Campaign,
  type Contact,
  type ContactBody,
  type ContactPage,
  type Endpoint,
  endpoints,
  type Message,
  pathPart,
  queryOf,
  type Receipt,
  type Run,
  type RunBody,
  type SendBody,
  type Template,
} from "./endpoints.ts";
import { defaultRetry, type RetrySettings } from "./retry.ts";
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
  /** Per attempt, from waiting for a connection to the last byte; default 10 s. */
  readonly timeoutMs?: number;
  /** Of an answer; default 8 MiB, because templates and campaigns come on one page. */
  readonly maxBodyBytes?: number;
  /** Most at once; default 8. No fewer than the calls that the admission dispatches at once. */
  readonly connections?: number;
  /** Removes secrets from error texts, which may echo the request. Default: removes the API key. */
  readonly redact?: ((text: string) => string) | undefined;
  /** Called after every attempt that was dispatched. */
  readonly onCall?: (report: CallReport) => void;
}

interface ContactQuery {
  /** 1 to 200. */
  readonly limit?: number;
  /** The `next` of an earlier page. */
  readonly after?: string | null;
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
  /** One page; 50 contacts unless `limit` says otherwise. */
  listContacts(query?: ContactQuery, options?: CallOptions): Promise<ContactPage>;
  /** All contacts after `after`; `limit` is the size of the pages, 200 unless given. */
  contacts(query?: ContactQuery, options?: CallOptions): ContactWalk;
  /** Null when there is no contact with this phone. */
  findContact(phone: string, options?: CallOptions): Promise<Contact | null>;
  /** Creates or updates. The document does not show the answer: any JSON, null for an empty body. */
  createContact(body: ContactBody, options?: CallOptions): Promise<unknown>;
  /** The latest 100. */
  listCampaigns(options?: CallOptions): Promise<Campaign[]>;
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
  let isClosed = false;
  // Loaded with the first callable account: undici is a tenth of the relay's startup time.
  const { Pool } = createRequire(import.meta.url)("undici") as typeof import("undici");
  const dispatcher = new Pool(origin, {
    connections: settings.connections ?? defaultConcurrency,
    pipelining: 1,
    // One request per connection, so that a reset connection leaves the outcome of one call unknown, not of all.
    allowH2: false,
    connect: { timeout: timeoutMs, lookup: lookupFunction() },
    // The exchange has its own deadline; these timeouts would not stop an answer that trickles in.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const calling: CallContext = {
    dispatcher,
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
    waits: new Set(),
    isClosed: () => isClosed,
  };

  const inFlight = new Set<Promise<unknown>>();
  function run<T>(endpoint: Endpoint<T>, request: ServiceRequest, options: CallOptions | undefined): Promise<T> {
    const running = call(calling, endpoint, request, options);
    const forget = () => void inFlight.delete(running);
    inFlight.add(running);
    running.then(forget, forget);
    return running;
  }

  const listContacts: ServiceClient["listContacts"] = ({ limit, after } = {}, options) =>
    run(endpoints.listContacts, { path: `/contacts${queryOf({ limit, after })}` }, options);

  return {
    sendMessage: (body, options) => run(endpoints.sendMessage, { path: "/messages", body }, options),
    getMessage: async (id, options) => run(endpoints.getMessage, { path: `/messages/${pathPart(id)}` }, options),
    listTemplates: async (options) => (await run(endpoints.listTemplates, { path: "/templates" }, options)).data,
    listContacts,
    contacts: ({ limit = 200, after = null } = {}, options) =>
      walkContacts((cursor) => listContacts({ limit, after: cursor }, options), after),
    findContact: async (phone, options) =>
      (await run(endpoints.findContact, { path: `/contacts${queryOf({ phone })}` }, options)).data[0] ?? null,
    createContact: (body, options) => run(endpoints.createContact, { path: "/contacts", body }, options),
    listCampaigns: (options) => run(endpoints.listCampaigns, { path: "/campaigns" }, options),
    me: (options) => run(endpoints.me, { path: "/me" }, options),
    startRun: async (automationId, body = {}, options) =>
      run(endpoints.startRun, { path: `/automations/${pathPart(automationId)}/runs`, body }, options),
    async close(withinMs) {
      isClosed = true;
      endWaits(calling);
      const cancel = withinMs === undefined ? () => {} : calling.clock.after(withinMs, () => cutAll(calling));
      await Promise.allSettled(inFlight);
      cancel();
      // Nothing is in flight; undici's `close` would still wait for a connection attempt that hangs.
      await dispatcher.destroy();
    },
  };
}

interface WalkedPage extends ContactPage {
  /** The cursor to save once this page's contacts are processed; see {@link ContactWalk.savedNext}. */
  readonly savedNext: string | null;
}

/**
 * All contacts after a cursor, in the order of their ids, fetched page by page on demand. Iterating again continues
 * from `savedNext`: after an error, or for newer contacts.
 */
interface ContactWalk extends AsyncIterable<Contact> {
  /** The same by pages, so that callers can save a cursor after each. */
  pages(): AsyncIterable<WalkedPage>;
  /**
   * The last non-null `next` whose page was processed to its end; at first the initial cursor. Given as `after` later, it
   * returns the new contacts and those of the last page again, because a page that is not full comes with `next: null`
   * (document, "GET /contacts"). No contact is missed, some come twice. Null: from the start.
   */
  readonly savedNext: string | null;
}

/** @param fetchPage rejects as the client's calls do; the position then stays the same. */
function walkContacts(fetchPage: (after: string | null) => Promise<ContactPage>, after: string | null): ContactWalk {
  let savedNext = after;

  async function* pages(): AsyncGenerator<WalkedPage, void, undefined> {
    const isRound = cycleGuard();
    for (let cursor = savedNext; ; ) {
      const page = await fetchPage(cursor);
      const { next } = page;
      if (next !== null) {
        // Either would loop forever.
        if (page.data.length === 0) throw malformed(endpoints.listContacts, 200, "a page without contacts has a next");
        if (next === cursor || isRound(next)) throw malformed(endpoints.listContacts, 200, "next leads back to a page already seen");
      }
      yield { ...page, savedNext: next ?? savedNext };
      // Only now: the consumer asked for more, so it has processed this page.
      savedNext = next ?? savedNext;
      if (next === null) return;
      cursor = next;
    }
  }

  return {
    async *[Symbol.asyncIterator]() {
      for await (const { data } of pages()) yield* data;
    },
    pages,
    get savedNext() {
      return savedNext;
    },
  };
}

/** Detects repeating cursors while remembering only one of them (Brent's algorithm). */
function cycleGuard(): (cursor: string) => boolean {
  let kept: string | null = null;
  let steps = 0;
  let power = 1;
  return (cursor) => {
    if (cursor === kept) return true;
    if (++steps === power) {
      kept = cursor;
      steps = 0;
      power *= 2;
    }
    return false;
  };
}
