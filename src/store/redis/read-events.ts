import { type EventId, hasIdLength } from "../../model/ids.ts";
import { parseMask, phoneMatches } from "../../model/mask.ts";
import type { EventReading } from "../reading.ts";
import {
  type EventDetail,
  type EventFilter,
  type EventsAbout,
  type EventsListed,
  type EventView,
  type HydrationView,
  releaseView,
} from "../views.ts";
import { runPipeline } from "./client.ts";
import { readBody, rowsAtOnce, type StoredEvent } from "./event-rows.ts";
import { messageName, readSubjectName, runName } from "./keys.ts";
import type { StoredParts } from "./live-seqs.ts";
import type { ReadWaiting } from "./read-stories.ts";
import { readSubjectRow, rowJson } from "./rows.ts";

interface ReadEventsParts extends StoredParts {
  readonly waiting: Pick<ReadWaiting, "waitingOf">;
  /** The hydration of a truncated event; null for other events. */
  readonly hydrationOf: (seq: number) => Promise<HydrationView | null>;
}

export function createReadEvents({ keys, link, live, events, waiting, hydrationOf }: ReadEventsParts) {
  /** The last range that was listed completely, with the latest time of receipt, which callers read next. */
  let looked: { readonly after: number; readonly before: number; readonly latest: number | null } | null = null;

  async function counts(seqs: readonly number[]): Promise<{ duplicates: number; conflicts: number }[]> {
    if (seqs.length === 0) return [];
    const fields = seqs.map(String);
    const found = await runPipeline(link, (commands) =>
      commands.hmget(`${keys.base}dups`, ...fields).hmget(`${keys.base}conflicts`, ...fields),
    );
    const [duplicates, conflicts] = found as [(string | null)[], (string | null)[]];
    return seqs.map((_, index) => ({ duplicates: Number(duplicates[index] ?? 0), conflicts: Number(conflicts[index] ?? 0) }));
  }

  async function views(rows: readonly StoredEvent[]): Promise<EventView[]> {
    const counted = await counts(rows.map(({ seq }) => seq));
    return rows.map((row, index) => ({ ...viewOf(row), ...(counted[index] ?? { duplicates: 0, conflicts: 0 }) }));
  }

  /**
   * The seqs of a message's events, greatest first. `unseen`: number of unplanned events, all older than `reach`, that were
   * not searched.
   */
  async function seqsAbout(wamid: string, { disposition, before = Number.MAX_SAFE_INTEGER, after = 0 }: EventFilter) {
    const isAccepted = disposition === undefined || disposition === "accepted";
    // Read first: events planned meanwhile are then in the list of their message.
    const { events: waits, unseen } = isAccepted ? await waiting.waitingOf([wamid], { after, before }) : { events: [], unseen: 0 };
    const found = new Set(waits.map(({ seq }) => seq));
    for (const account of await link.run((redis) => redis.smembers(`${keys.base}accounts`))) {
      const key = keys.of(`es:${messageName(account, wamid)}`);
      const seqs = await link.run((redis) => redis.zrange(key, `(${after}`, `(${before}`, "BYSCORE"));
      for (const seq of seqs) found.add(Number(seq));
    }
    return { seqs: [...found].sort((a, b) => b - a), unseen, reach: waits[0]?.seq ?? Number.MAX_SAFE_INTEGER };
  }

  /** The same for the names in a filter that has neither phone nor reference. */
  async function seqsNamed({ seqs, subjects }: EventsAbout, { disposition, before = Number.MAX_SAFE_INTEGER, after = 0 }: EventFilter) {
    const wamids = subjects.flatMap(({ type, key }) => (type === "message" ? [key] : []));
    const isAccepted = wamids.length > 0 && (disposition === undefined || disposition === "accepted");
    const { events: waits, unseen } = isAccepted ? await waiting.waitingOf(wamids, { after, before }) : { events: [], unseen: 0 };
    const known = new Set(subjects.map(nameOf));
    const lists = await runPipeline(link, (commands) => {
      for (const name of known) commands.zrange(keys.of(`es:${name}`), `(${after}`, `(${before}`, "BYSCORE");
    });
    const planned = (lists as string[][]).flat().map(Number);
    const waitingSeqs = waits.filter(({ account, wamid }) => known.has(messageName(account, wamid))).map(({ seq }) => seq);
    const given = seqs.filter((seq) => seq > after && seq < before);
    const all = [...new Set([...given, ...planned, ...waitingSeqs])].sort((a, b) => b - a);
    return { seqs: all, unseen, reach: waits[0]?.seq ?? Number.MAX_SAFE_INTEGER };
  }

  /** Those of the rows that an event's own names, or its message's or run's, select. */
  async function selected(rows: readonly StoredEvent[], { seqs, subjects, phone, reference }: EventsAbout): Promise<StoredEvent[]> {
    const known = new Set(subjects.map(nameOf));
    const names = reference === undefined ? [] : [...new Set(rows.flatMap(({ subject }) => (subject === null ? [] : [subject])))];
    const stored = names.length === 0 ? [] : await link.run((redis) => redis.mget(names.map(keys.of)));
    for (const [index, name] of names.entries()) {
      const row = stored[index] ?? null;
      if (row !== null && readSubjectRow(rowJson(row)).reference === reference) known.add(name);
    }
    return rows.filter(({ seq, subject }) => {
      if (seqs.includes(seq) || (subject !== null && known.has(subject))) return true;
      const { type, key } = subject === null || phone === undefined ? { type: null, key: "" } : readSubjectName(subject);
      return phone !== undefined && type === "message" && phoneMatches(key, phone);
    });
  }

  function* pieces(seqs: readonly number[], size: number): Generator<number[]> {
    for (let from = 0; from < seqs.length; from += size) yield seqs.slice(from, from + size);
  }

  async function list(filter: EventFilter): Promise<EventsListed> {
    const { wamid, about: names, before, after, limit } = filter;
    const isIndexed = names !== undefined && names.phone === undefined && names.reference === undefined;
    // Without a filter a page needs no further rows.
    const size = isAll(filter) ? Math.min(rowsAtOnce, limit) : rowsAtOnce;
    const about = wamid !== undefined ? await seqsAbout(wamid, filter) : isIndexed ? await seqsNamed(names, filter) : null;
    const candidates = about === null ? live.back(after ?? 0, before ?? Number.MAX_SAFE_INTEGER, size) : pieces(about.seqs, size);
    const found: StoredEvent[] = [];
    let latest: number | null = null;
    for await (const seqs of candidates) {
      const rows = await events.rows(seqs);
      for (const row of rows) if (latest === null || row.receivedAt > latest) latest = row.receivedAt;
      const matching = rows.filter((row) => matches(filter, row));
      found.push(...(names === undefined || isIndexed ? matching : await selected(matching, names)));
      if (found.length < limit) continue;
      const page = found.slice(0, limit);
      // A page that ends above `reach` leaves the unsearched events to the next page.
      const isPast = about !== null && (page.at(-1)?.seq ?? 0) < about.reach;
      return { events: await views(page), unseen: isPast ? about.unseen : 0 };
    }
    if (after !== undefined && before !== undefined && about === null) looked = { after, before, latest };
    return { events: await views(found), unseen: about?.unseen ?? 0 };
  }

  return {
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
    /** The seqs of an event id, one per account that has it, or of a masked event id. */
    async seqsOf(id: string): Promise<number[]> {
      const found = hasIdLength(id) ? await events.seqsOf(id) : [];
      const mask = parseMask("event", id);
      return found.length > 0 || mask === null ? found : events.seqsOfMask(mask);
    },
  } satisfies EventReading;
}

const nameOf = ({ type, account, key }: EventsAbout["subjects"][number]) =>
  type === "message" ? messageName(account, key) : runName(account, key);

function isAll({ event, source, account, status, disposition, errorCode, about, from, to }: EventFilter): boolean {
  return [event, source, account, status, disposition, errorCode, about, from, to].every((criterion) => criterion === undefined);
}

function matches({ event, source, account, status, disposition, errorCode, from, to }: EventFilter, row: StoredEvent): boolean {
  if (event !== undefined && row.kind !== event) return false;
  if (source !== undefined && row.source !== source) return false;
  if (account !== undefined && row.account !== account) return false;
  if (status !== undefined && row.status !== status) return false;
  if (disposition !== undefined && row.disposition !== disposition) return false;
  if (errorCode !== undefined && row.errorCode !== errorCode) return false;
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
    ...releaseView(row.disposition, row.release),
    size: row.size,
  };
}

export function subjectOf({ subject }: Pick<StoredEvent, "subject">): EventView["subject"] {
  if (subject === null) return null;
  const { type, key } = readSubjectName(subject);
  return { type, key };
}
