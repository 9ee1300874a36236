import { setImmediate as nextTurn } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import type { Settings } from "../config/schema.ts";
import { type AuditPort, addAuditRoute } from "../control/audit.ts";
import { addExplainRoute } from "../control/explain.ts";
import { createHttp } from "../control/http.ts";
import type { TrackedReading } from "../control/messages.ts";
import { addReadingRoutes, type Reading } from "../control/routes.ts";
import type { EventView, ListedEventView } from "../model/answers.ts";
import type { AuditProgress, AuditReport } from "../model/audit.ts";
import { RelayError } from "../model/errors.ts";
import { parseMask } from "../model/mask.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { unknownName } from "../model/nearest.ts";
import type { Inspecting, StoreReading } from "../store/reading.ts";
import type { SeqBounds } from "../store/views.ts";
import { createExplaining } from "./explaining.ts";
import { openStoreForReading } from "./open-store.ts";

/**
 * The reading part of the control API over a store, for commands: without socket and token, whether relays run or not.
 * Throws `StoreRefused` when the store cannot be opened. `failed` receives the cause of an answer 500.
 */
export async function createReadingApi(
  settings: Pick<Settings, "storage" | "routes" | "sources">,
  failed: (error: unknown) => void,
): Promise<{ readonly http: FastifyInstance; close(): Promise<void> }> {
  const { storage, routes } = settings;
  const { read, inspecting, now, breakersOf, close } = await openStoreForReading(storage);
  const http = createHttp(null, failed);
  const noToken = () => async () => {};
  addReadingRoutes(http, createReadingPort(read, inspecting), noToken);
  addExplainRoute(http, createExplaining({ read, now, breakers: () => breakersOf(routes) }), noToken);
  addAuditRoute(http, createAuditing({ inspecting, now, isRunning: false, sources: () => knownSources(settings, read) }), noToken);
  return {
    http,
    async close() {
      await http.close();
      await close();
    },
  };
}

/** Events are stored in the order received, unless a clock was set; this allows for that. */
const clockSlackMs = 3_600_000;

/** The reading part of the control API's port, over a store or a reader. */
export function createReadingPort(read: StoreReading, inspecting: Pick<Inspecting, "stats">): Reading {
  /** With one read for the whole page. */
  async function withCounts(events: readonly EventView[]): Promise<ListedEventView[]> {
    const counts = events.length === 0 ? null : await read.deliveries.counts(events.map(({ seq }) => seq));
    return events.map((event) => ({ ...event, deliveries: counts?.get(event.seq) ?? {} }));
  }

  return {
    ...createTrackedPort(read),
    async listEvents(filter) {
      const { limit, from } = filter;
      // The events of one message are few and indexed.
      if (filter.wamid !== undefined) {
        const wamid = await wamidOf(read, filter.wamid);
        const { events: data, unseen } = await read.events.list({ ...filter, wamid });
        return { data: await withCounts(data), next: data.length < limit ? null : (data.at(-1)?.seq ?? null), unseen };
      }
      const { found, reached } = await walkBack({
        before: filter.before ?? null,
        limit,
        bounds: read.events.bounds,
        read: async (after, before, most) => (await read.events.list({ ...filter, after, before, limit: most })).events,
        isPast: async (after, before) => {
          const latest = from === undefined ? null : await read.events.latestReceived(after, before);
          return from !== undefined && latest !== null && latest < from - clockSlackMs;
        },
      });
      return { data: await withCounts(found), next: found.length >= limit ? (found.at(-1)?.seq ?? null) : reached, unseen: 0 };
    },
    async findEvents(id) {
      const bySeq = /^\d{1,15}$/.test(id) ? await read.events.get(Number(id)) : null;
      if (bySeq !== null) return [bySeq];
      const events = await Promise.all((await read.events.seqsOf(id)).map((seq) => read.events.get(seq)));
      return events.filter((event) => event !== null);
    },
    async listDeliveries({ before: place, ...filter }) {
      const [event, route] = (place ?? "").split(".").map(Number);
      const start = event === undefined || route === undefined || place === undefined ? null : { event, route };
      const { found, reached } = await walkBack({
        // The last event of the page before may have more of them.
        before: start === null ? null : start.event + 1,
        limit: filter.limit,
        bounds: read.events.bounds,
        read: (after, before, limit) =>
          read.deliveries.list({
            ...filter,
            after,
            before: start !== null && start.event < before ? start : { event: before, route: 0 },
            limit,
          }),
      });
      const last = found.length >= filter.limit ? found.at(-1) : undefined;
      const next = last !== undefined ? await read.deliveries.placeOf(last) : reached === null ? null : { event: reached, route: 0 };
      return { data: found, next: next === null ? null : `${next.event}.${next.route}` };
    },
    async deliveriesOf(event) {
      const found = await read.deliveries.list({ event, limit: 1000 });
      return Promise.all(found.toReversed().map(async (delivery) => ({ ...delivery, tries: await read.deliveries.attempts(delivery) })));
    },
    stats: () => inspecting.stats(),
  };
}

/** The wamid that has this mask; any other text as it is. */
async function wamidOf({ messages }: Pick<StoreReading, "messages">, text: string): Promise<string> {
  const [found] = parseMask("wamid", text) === null ? [] : await messages.find(text);
  return found?.wamid ?? text;
}

function createTrackedPort({ messages, runs }: Pick<StoreReading, "messages" | "runs">): TrackedReading {
  /** Newest first. `next` is a seq. */
  async function page<V extends { readonly seq: number }>(
    query: {
      readonly before?: number | undefined;
      readonly limit: number;
      readonly reference?: string | undefined;
      readonly runId?: string | undefined;
    },
    bounds: () => MaybePromise<SeqBounds>,
    list: (after: number, before: number, limit: number) => MaybePromise<readonly V[]>,
  ): Promise<{ data: Omit<V, "seq">[]; next: number | null }> {
    // Few have the same name, and names are indexed.
    const isNamed = query.reference !== undefined || query.runId !== undefined;
    const { found, reached } = isNamed
      ? { found: await list(0, query.before ?? Number.MAX_SAFE_INTEGER, query.limit), reached: null }
      : await walkBack({ before: query.before ?? null, limit: query.limit, bounds, read: list });
    const last = found.length >= query.limit ? found.at(-1) : undefined;
    return { data: found.map(({ seq: _, ...view }) => view), next: last?.seq ?? reached };
  }

  return {
    listMessages: (query) => page(query, messages.bounds, (after, before, limit) => messages.list({ ...query, after, before, limit })),
    findMessages: (name) => messages.find(name),
    listRuns: (query) => page(query, runs.bounds, (after, before, limit) => runs.list({ ...query, after, before, limit })),
  };
}

/** How a list is read: newest first, a window of event seqs at a time. */
interface WalkBack<T> {
  /** Exclusive; null: from the newest on. */
  readonly before: number | null;
  readonly limit: number;
  readonly bounds: () => MaybePromise<{ readonly oldest: number; readonly newest: number } | null>;
  /** Up to `limit` rows of the seqs between, newest first. */
  readonly read: (after: number, before: number, limit: number) => MaybePromise<readonly T[]>;
  /** True when nothing older than these seqs can match. */
  readonly isPast?: (after: number, before: number) => MaybePromise<boolean>;
}

/** Seqs in one window: reading them blocks the thread for a few milliseconds. */
const windowSeqs = 5_000;
/** A list that is not full after this returns where to continue. */
const longestMs = 2_000;

/**
 * Reads a list without blocking the thread for longer than one window, however rare the matches. Everything down to the seq
 * `reached` was searched; null: nothing older exists.
 */
async function walkBack<T>(walk: WalkBack<T>): Promise<{ found: T[]; reached: number | null }> {
  const bounds = await walk.bounds();
  if (bounds === null) return { found: [], reached: null };
  const startedAt = performance.now();
  const found: T[] = [];
  let before = Math.min(walk.before ?? Number.MAX_SAFE_INTEGER, bounds.newest + 1);
  while (before > bounds.oldest) {
    const after = Math.max(before - windowSeqs - 1, bounds.oldest - 1);
    found.push(...(await walk.read(after, before, walk.limit - found.length)));
    if (found.length >= walk.limit) return { found, reached: before };
    if ((await walk.isPast?.(after, before)) === true) return { found, reached: null };
    before = after + 1;
    if (performance.now() - startedAt > longestMs) return { found, reached: before > bounds.oldest ? before : null };
    await nextTurn();
  }
  return { found, reached: null };
}

interface AuditingParts {
  readonly inspecting: Pick<Inspecting, "audit">;
  readonly now: () => number;
  /** A relay works on the store. */
  readonly isRunning: boolean;
  readonly sources: () => MaybePromise<readonly string[]>;
}

/** The sources of the settings, then those whose events are or were in the store. */
export async function knownSources(
  settings: Pick<Settings, "sources">,
  { secretUses }: Pick<StoreReading, "secretUses">,
): Promise<string[]> {
  const stored = (await secretUses()).map(({ source }) => source);
  return [...new Set([...Object.keys(settings.sources), ...stored])];
}

interface Audit {
  readonly ended: Promise<AuditReport>;
  progress: AuditProgress;
}

/** Offenders listed; the others are counted. */
const mostOffenders = 100;
/** How long a report is kept for a caller whose request of up to half a minute timed out, and who repeats it. */
const keptMs = 120_000;

/** Audits in progress, one for each filter. */
export function createAuditing({ inspecting, now, isRunning, sources }: AuditingParts): AuditPort {
  const audits = new Map<string, Audit>();

  function start(key: string, filter: Parameters<AuditPort["audit"]>[0]): Audit {
    const order = { ...filter, now: now(), isRunning, mostOffenders };
    const audit: Audit = {
      progress: { checked: 0, of: 0 },
      ended: inspecting.audit(order, (progress) => {
        audit.progress = progress;
      }),
    };
    audits.set(key, audit);
    const forget = () => {
      if (audits.get(key) === audit) audits.delete(key);
    };
    audit.ended.then(() => setTimeout(forget, keptMs).unref(), forget);
    return audit;
  }

  return {
    async audit(filter, waitMs) {
      const { source } = filter;
      const known = source === undefined ? [] : await sources();
      // The sums of no events always match, so a misspelled source would pass.
      if (source !== undefined && !known.includes(source)) throw new RelayError("not_found", unknownName("source", source, known), known);
      const key = JSON.stringify([filter.from, filter.to, filter.source]);
      const audit = audits.get(key) ?? start(key, filter);
      const report = await within(audit.ended, waitMs);
      if (report === null) return audit.progress;
      if (audits.get(key) === audit) audits.delete(key);
      return report;
    },
  };
}

/** Null when it takes longer than `ms`. */
async function within<T>(ended: Promise<T>, ms: number): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(() => resolve(null), ms);
  try {
    return await Promise.race([ended, late]);
  } finally {
    clearTimeout(timer);
  }
}
