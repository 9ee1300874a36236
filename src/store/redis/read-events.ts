import { type EventId, maxIdLength } from "../../event/ids.ts";
import type { EventDetail, EventFilter, EventView, HydrationView } from "../event-views.ts";
import type { EventReading } from "../reading.ts";
import { readBody } from "./bodies.ts";
import { type Keys, messageName, readSubjectName } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import type { LiveSeqs } from "./live-seqs.ts";
import type { ReadWaiting } from "./read-waiting.ts";
import { rowsAtOnce, type StoredEvent, type StoredEvents } from "./stored-events.ts";
import { pipelineResults } from "./unavailable.ts";

export interface ReadEventsParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: LiveSeqs;
  readonly events: StoredEvents;
  readonly waiting: Pick<ReadWaiting, "waitingOf">;
  /** What became of a truncated event; null for all others. */
  readonly hydrationOf: (seq: number) => Promise<HydrationView | null>;
}

export function createReadEvents({ keys, link, live, events, waiting, hydrationOf }: ReadEventsParts) {
  /** The last range that a list has looked at whole, with when the latest of its events was received: it is asked for next. */
  let looked: { readonly after: number; readonly before: number; readonly latest: number | null } | null = null;

  async function counts(seqs: readonly number[]): Promise<{ duplicates: number; conflicts: number }[]> {
    if (seqs.length === 0) return [];
    const fields = seqs.map(String);
    const found = await link.run((redis) =>
      redis
        .pipeline()
        .hmget(`${keys.base}dups`, ...fields)
        .hmget(`${keys.base}conflicts`, ...fields)
        .exec(),
    );
    const [duplicates, conflicts] = pipelineResults(found) as [(string | null)[], (string | null)[]];
    return seqs.map((_, index) => ({ duplicates: Number(duplicates[index] ?? 0), conflicts: Number(conflicts[index] ?? 0) }));
  }

  async function views(rows: readonly StoredEvent[]): Promise<EventView[]> {
    const counted = await counts(rows.map(({ seq }) => seq));
    return rows.map((row, index) => ({ ...viewOf(row), ...(counted[index] ?? { duplicates: 0, conflicts: 0 }) }));
  }

  /** Seqs that may be meant, greatest first. */
  async function* candidates(filter: EventFilter): AsyncGenerator<number[]> {
    const { wamid, before = Number.MAX_SAFE_INTEGER, after = 0, limit } = filter;
    // A page of whatever there is needs no more than itself.
    const size = isAll(filter) ? Math.min(rowsAtOnce, limit) : rowsAtOnce;
    if (wamid === undefined) {
      yield* live.back(after, before, size);
      return;
    }
    const found = new Set<number>();
    // First of all: what is planned meanwhile is among those of its message.
    if (filter.disposition === undefined || filter.disposition === "accepted") {
      for (const { seq } of (await waiting.waitingOf([wamid], { after, before })).events) found.add(seq);
    }
    for (const account of await link.run((redis) => redis.smembers(`${keys.base}accounts`))) {
      const key = keys.of(`es:${messageName(account, wamid)}`);
      const seqs = await link.run((redis) => redis.zrange(key, `(${after}`, `(${before}`, "BYSCORE"));
      for (const seq of seqs) found.add(Number(seq));
    }
    const seqs = [...found].sort((a, b) => b - a);
    for (let from = 0; from < seqs.length; from += size) yield seqs.slice(from, from + size);
  }

  async function list(filter: EventFilter): Promise<EventView[]> {
    const { after, before, limit } = filter;
    const found: StoredEvent[] = [];
    let latest: number | null = null;
    for await (const seqs of candidates(filter)) {
      const rows = await events.rows(seqs);
      for (const row of rows) if (latest === null || row.receivedAt > latest) latest = row.receivedAt;
      found.push(...rows.filter((row) => isMeant(filter, row)));
      if (found.length >= limit) return views(found.slice(0, limit));
    }
    if (after !== undefined && before !== undefined && filter.wamid === undefined) looked = { after, before, latest };
    return views(found);
  }

  return {
    /** Newest first. */
    list,
    async get(seq: number): Promise<EventDetail | null> {
      const row = await events.row(seq);
      const body = row === null ? null : await readBody(link, keys, seq);
      if (row === null || body === null) return null;
      const [[view], [verdicts = []], hydration] = await Promise.all([views([row]), events.verdicts([row]), hydrationOf(seq)]);
      return { ...(view as EventView), headers: row.headers ?? {}, body, verdicts, hydration };
    },
    bounds: live.bounds,
    /** Unix ms at which the last of the events between two seqs was received; null when there are none. */
    async latestReceived(after: number, before: number): Promise<number | null> {
      if (looked?.after === after && looked.before === before) return looked.latest;
      let latest: number | null = null;
      for await (const seqs of live.back(after, before, rowsAtOnce)) {
        for (const { receivedAt } of await events.rows(seqs)) if (latest === null || receivedAt > latest) latest = receivedAt;
      }
      return latest;
    },
    /** The seqs of an event id, one per account that has it. */
    seqsOf: async (id: string): Promise<number[]> => (id.length > maxIdLength ? [] : events.seqsOf(id)),
  } satisfies EventReading;
}

function isAll({ event, source, account, status, disposition, from, to }: EventFilter): boolean {
  return [event, source, account, status, disposition, from, to].every((criterion) => criterion === undefined);
}

function isMeant({ event, source, account, status, disposition, from, to }: EventFilter, row: StoredEvent): boolean {
  if (event !== undefined && row.kind !== event) return false;
  if (source !== undefined && row.source !== source) return false;
  if (account !== undefined && row.account !== account) return false;
  if (status !== undefined && row.status !== status) return false;
  if (disposition !== undefined && row.disposition !== disposition) return false;
  return (from === undefined || row.receivedAt >= from) && (to === undefined || row.receivedAt < to);
}

function viewOf(row: StoredEvent): Omit<EventView, "duplicates" | "conflicts"> {
  return {
    seq: row.seq,
    id: row.id as EventId | null,
    event: row.kind,
    account: row.account,
    source: row.source,
    origin: row.origin,
    receivedAt: row.receivedAt,
    createdAt: row.createdAt,
    secret: row.secret,
    subject: subjectOf(row),
    status: row.status,
    previousStatus: row.previousStatus,
    transition: row.moved,
    errorCode: row.errorCode,
    disposition: row.disposition,
    parkedUntil: row.parkedUntil,
    fault: row.fault,
    size: row.size,
  };
}

export function subjectOf({ subject }: Pick<StoredEvent, "subject">): EventView["subject"] {
  if (subject === null) return null;
  const { type, key } = readSubjectName(subject);
  return { type, key };
}
