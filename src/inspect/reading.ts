import { setTimeout as delay } from "node:timers/promises";
import type { Settings } from "../config/schema.ts";
import { accountsOf, metaOf, secretUsage } from "../config/sources.ts";
import type { PlainHandlers } from "../control/routes.ts";
import type { EventView, ListedEventView } from "../model/answers/events.ts";
import type { SourceView } from "../model/answers/relay.ts";
import type { AuditFilter, AuditProgress, AuditReport } from "../model/audit.ts";
import { badRequest, RelayError } from "../model/errors.ts";
import { refuseUnknown } from "../model/nearest.ts";
import type { DeliveryQuery, EventQuery, GroupQuery } from "../model/queries.ts";
import {
  type DeliveryPlace,
  type Inspecting,
  noDeliveries,
  type SourceNote,
} from "../store/port.ts";
import type { StoreReading } from "../store/read/reading.ts";
import {
  createSearching,
  createTrackedReading,
  mostIndexed,
  resolveEvents,
  seqsNamed,
} from "./searching.ts";
import { readIndexed, walkBack } from "./walk-back.ts";

/** Events are stored in the order received, unless a clock was set; this allows for that. */
const clockSlackMs = 3_600_000;

/** Events with the counts of their deliveries, which are read at once. */
export async function withCounts(
  { countDeliveries }: Pick<StoreReading, "countDeliveries">,
  events: readonly EventView[],
): Promise<ListedEventView[]> {
  const counts = events.length === 0 ? null : await countDeliveries(events.map(({ seq }) => seq));
  return events.map((event) => ({ ...event, ...(counts?.get(event.seq) ?? noDeliveries) }));
}

/**
 * Lists and names, over a store or a reader. `wholeOnly`: by whole names, not by a part of one.
 * `most`: see `mostIndexed`.
 */
export function createReading(read: StoreReading, most = mostIndexed) {
  /** Whether no event of these seqs, or of older ones, can be received from `from` on. */
  async function isReceivedBefore(
    from: number | undefined,
    after: number,
    before: number,
  ): Promise<boolean> {
    const latest = from === undefined ? null : await read.latestReceived(after, before);
    return from !== undefined && latest !== null && latest < from - clockSlackMs;
  }

  return {
    ...createTrackedReading(read),
    async listEvents({ wamid, subject, q, ...query }: EventQuery, wholeOnly: boolean) {
      const { limit, from } = query;
      const [names = {}, ...others] = await resolveEvents(
        read,
        { wamid, subject, q, wholeOnly },
        most,
      );
      const filter = { ...query, ...names };
      if (others.length > 0)
        throw new RelayError("bad_request", "wamid, subject and q exclude each other");
      // The events of a few messages are indexed.
      const isIndexed =
        filter.about !== undefined &&
        filter.about.phone === undefined &&
        filter.about.reference === undefined;
      if (filter.wamid !== undefined || filter.request !== undefined || isIndexed) {
        const { found, reached } = await readIndexed(read.listEvents, filter);
        return { data: await withCounts(read, found), next: reached };
      }
      const { found, reached } = await walkBack({
        before: filter.before,
        limit,
        isAside: read.isAside?.(),
        bounds: read.eventBounds,
        // Windows are read for `from`, too.
        isIndexed:
          from === undefined &&
          (filter.errorCode !== undefined || filter.disposition === "quarantined"),
        read: (after, before, most) => read.listEvents({ ...filter, after, before, limit: most }),
        isPast: (after, before) => isReceivedBefore(from, after, before),
      });
      return {
        data: await withCounts(read, found),
        next: reached === null || found.length < limit ? reached : (found.at(-1)?.seq ?? null),
      };
    },
    /**
     * By `seq` when `id` is the seq of an event, else by event id: one for each account that has
     * it.
     */
    async findEvents(id: string) {
      const events = await Promise.all(
        (await seqsNamed(read, id)).map((seq) => read.getEvent(seq)),
      );
      return events.filter((event) => event !== null);
    },
    search: createSearching(read),
    async listDeliveries({ before: place, ...filter }: DeliveryQuery) {
      const { from } = filter;
      const start = place === undefined ? null : parsePlace(place);
      const { found, reached } = await walkBack({
        // The last event of the page before may have more of them.
        before: start === null ? undefined : start.event + 1,
        limit: filter.limit,
        isAside: read.isAside?.(),
        bounds: read.eventBounds,
        read: (after, before, limit) =>
          read.listDeliveries({
            ...filter,
            after,
            before: start !== null && start.event < before ? start : { event: before, route: "" },
            limit,
          }),
        isPast: (after, before) => isReceivedBefore(from, after, before),
      });
      const { event, route } = (found.length >= filter.limit && found.at(-1)) || {
        event: reached,
        route: "",
      };
      return { data: found, next: reached === null ? null : `${event}.${route}` };
    },
    async groupDeliveries(filter: GroupQuery) {
      const found = await read.groupDeliveries(filter);
      return { data: found.toSorted((a, b) => b.count - a.count) };
    },
  };
}

/** The route may be a name with dots. */
function parsePlace(text: string): DeliveryPlace {
  const dot = text.indexOf(".");
  return { event: Number(text.slice(0, dot)), route: text.slice(dot + 1) };
}

export interface StoredParts {
  readonly read: Pick<StoreReading, "secretUses" | "sourceNotes">;
  readonly inspecting: Pick<Inspecting, "audit">;
  readonly now: () => number;
  /** A relay works on the store. */
  readonly isRunning: boolean;
  readonly settings: () => Pick<Settings, "sources" | "routes">;
}

/** What a relay and a command read of the store alike. */
export function createStoredHandlers(
  parts: StoredParts,
): Pick<PlainHandlers, "audit" | "listSecrets" | "listSources"> {
  const { read, settings } = parts;
  return {
    audit: createAuditing(parts),
    listSecrets: async () => ({ data: secretUsage(settings(), await read.secretUses()) }),
    listSources: async () => ({ data: viewSources(settings(), await read.sourceNotes()) }),
  };
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

/**
 * How long a report is kept for a caller whose request of up to half a minute timed out, and who
 * repeats it.
 */
const keptMs = 120_000;

function createAuditing({
  read,
  inspecting,
  now,
  isRunning,
  settings,
}: StoredParts): PlainHandlers["audit"] {
  const audits = new Map<string, Audit>();

  function start(key: string, filter: AuditFilter): Audit {
    const audit: Audit = {
      progress: { checked: 0, of: 0 },
      ended: inspecting.audit({ ...filter, now: now(), isRunning }, (progress) => {
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

  return async ({ wait, ...filter }, { reply }) => {
    const { source, from, to = Number.POSITIVE_INFINITY } = filter;
    refuseReversed(from, to);
    // The sums of no events always match, so a misspelled source would pass.
    if (source !== undefined)
      refuseUnknown("not_found", "source", source, await knownSources(settings(), read));
    const key = JSON.stringify([filter.from, filter.to, filter.source]);
    const audit = audits.get(key) ?? start(key, filter);
    const report = await Promise.race([audit.ended, delay(wait * 1000, null, { ref: false })]);
    if (report === null) {
      reply.code(202);
      return audit.progress;
    }
    if (audits.get(key) === audit) audits.delete(key);
    return report;
  };
}

export function refuseReversed(from: number | undefined, to: number): void {
  if (from !== undefined && from >= to)
    throw badRequest([{ path: "from", message: "must be before to" }]);
}

/** The sources of the settings, with what was noted of them. */
function viewSources(
  { sources }: Pick<Settings, "sources">,
  notes: readonly SourceNote[],
): SourceView[] {
  return Object.entries(sources).map(([name, source]) => {
    const own = notes.filter((note) => note.source === name);
    const { verifyTokens = [], accounts = {} } = metaOf(source) ?? {};
    return {
      source: name,
      kind: source.kind,
      format: source.kind === "events" ? source.format : null,
      accounts: [...new Set(accountsOf(source))],
      handshake:
        verifyTokens.length > 0
          ? { doneAt: own.find(({ number }) => number === null)?.at ?? null }
          : null,
      numbers: own.flatMap(({ number, account, at }) =>
        number === null ? [] : [{ number, account: accounts[number] ?? account, lastAt: at }],
      ),
    };
  });
}
