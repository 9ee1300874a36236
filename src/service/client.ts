import { createRequire } from "node:module";
import type { Clock } from "../event/clock.ts";
import { lookupFunction } from "../event/name-lookup.ts";
import { createRedactor } from "../event/redact.ts";
import type { Secret } from "../event/secret.ts";
import { type Admission, usuallyAtOnce } from "./admission.ts";
import { malformed } from "./answers.ts";
import { type Calling, type CallOptions, type CallReport, call, cutAll, endWaits, type ServiceRequest } from "./call.ts";
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
  /** Asked before every attempt. */
  readonly admission: Admission;
  readonly clock: Clock;
  /** From 0 up to 1. */
  readonly random?: () => number;
  readonly retry?: Partial<RetrySettings>;
  /** For each attempt, from waiting for a connection to the last byte; 10 s. */
  readonly timeoutMs?: number;
  /** Of an answer; 8 MiB, for templates and campaigns come on one page. */
  readonly maxBodyBytes?: number;
  /** At most this many at once, and no fewer than the admission lets go; 8. */
  readonly connections?: number;
  /** Takes secrets out of the texts of errors, which may echo the request. Not given: the API key is taken out. */
  readonly redact?: ((text: string) => string) | undefined;
  /** Told of every attempt that was let through. */
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
 * `ServiceError`, or with the reason of the signal it was given. What the service answers beyond the
 * documented fields is passed on untouched.
 */
export interface ServiceClient {
  /** Not idempotent: tried again by itself only when the service surely did nothing. */
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
  /** Creates or updates. What it answers is not shown in the document: any JSON, null for an empty body. */
  createContact(body: ContactBody, options?: CallOptions): Promise<unknown>;
  /** The latest 100. */
  listCampaigns(options?: CallOptions): Promise<Campaign[]>;
  me(options?: CallOptions): Promise<Account>;
  /** Not idempotent, and the service does not dedupe: keep `runId`. Tried again only when the service surely did nothing. */
  startRun(automationId: string, body?: RunBody, options?: CallOptions): Promise<Run>;
  /**
   * Refuses further calls, ends those that wait for room or for their next attempt, and resolves when the
   * requests on their way have ended: each within its `timeoutMs`, and all within `withinMs` when that is given.
   * What has not ended by then is cut: it fails with the code `closed`, its outcome unknown if it was sent. May be
   * called again, to hurry a closing under way.
   */
  close(withinMs?: number): Promise<void>;
}

/** Throws a TypeError for a base URL or key that cannot be one. */
export function createServiceClient(settings: ServiceClientSettings): ServiceClient {
  const { origin, root } = readServiceUrl(settings.baseUrl);
  if (!isApiKey(settings.apiKey)) throw new TypeError("apiKey is empty or holds characters that no header carries");
  const { timeoutMs = 10_000 } = settings;
  let isClosed = false;
  // Loaded with the first account that can be asked: it is a tenth of what a relay's start costs.
  const { Pool } = createRequire(import.meta.url)("undici") as typeof import("undici");
  const dispatcher = new Pool(origin, {
    connections: settings.connections ?? usuallyAtOnce,
    pipelining: 1,
    // One request per connection: what a reset connection leaves unknown is one call, not all of them.
    allowH2: false,
    connect: { timeout: timeoutMs, lookup: lookupFunction() },
    // The exchange has a deadline of its own; these would not stop a dripping answer.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const calling: Calling = {
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

  const underWay = new Set<Promise<unknown>>();
  function run<T>(endpoint: Endpoint<T>, request: ServiceRequest, options: CallOptions | undefined): Promise<T> {
    const running = call(calling, endpoint, request, options);
    const forget = () => void underWay.delete(running);
    underWay.add(running);
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
      await Promise.allSettled(underWay);
      cancel();
      // Nothing is on its way any more; undici's `close` would still wait for a connection that hangs while it is made.
      await dispatcher.destroy();
    },
  };
}

interface WalkedPage extends ContactPage {
  /** The cursor to save once this page's contacts are dealt with; see {@link ContactWalk.savedNext}. */
  readonly savedNext: string | null;
}

/**
 * All contacts after a cursor, in the order of their ids, page after page as they are asked for. Iterating
 * again goes on from `savedNext`: after an error, or for the contacts that came since.
 */
interface ContactWalk extends AsyncIterable<Contact> {
  /** The same walk by pages, so that a cursor can be saved after each. */
  pages(): AsyncIterable<WalkedPage>;
  /**
   * The last `next` that was not null whose page has been dealt with to its end; at first the cursor begun
   * with. Saved and given as `after` later, it brings the new contacts and, because a page that is not full
   * comes with `next: null` (document, "GET /contacts"), those of the last such page once more: none is
   * missed, some are seen twice. Null: from the start.
   */
  readonly savedNext: string | null;
}

/** @param fetchPage rejects as the client's calls do; the walk then stands where it was. */
function walkContacts(fetchPage: (after: string | null) => Promise<ContactPage>, after: string | null): ContactWalk {
  let savedNext = after;

  async function* pages(): AsyncGenerator<WalkedPage, void, undefined> {
    const isRound = cycleGuard();
    for (let cursor = savedNext; ; ) {
      const page = await fetchPage(cursor);
      const { next } = page;
      if (next !== null) {
        // Either would have a walk go on for ever.
        if (page.data.length === 0) throw malformed(endpoints.listContacts, 200, "a page without contacts has a next");
        if (next === cursor || isRound(next)) throw malformed(endpoints.listContacts, 200, "next leads back to a page already seen");
      }
      yield { ...page, savedNext: next ?? savedNext };
      // Only now: the consumer has come back for more, so this page is dealt with.
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

/** Tells, sooner or later, that cursors repeat, remembering only one of them (Brent's way). */
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
