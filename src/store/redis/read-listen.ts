import type { EventId } from "../../model/ids.ts";
import type { ListenedContent, ListenPage, ListenRow } from "../../model/listen.ts";
import type { ListenReading, OpenPage, Wanted } from "../reading.ts";
import { readBodies, type StoredEvent } from "./event-rows.ts";
import type { StoredParts } from "./live-seqs.ts";
import { subjectOf } from "./read-events.ts";
import { readSubjectRow, rowJson } from "./rows.ts";

/** Limits of a page, which is filtered in one turn of the event loop, and of the rows and bodies kept in memory. */
const most = { rows: 400, bytes: 64 * 1024, keptRows: 4_000, keptBytes: 4 * 1024 * 1024 };
/** Rows read first; then twice as many each time. */
const firstRows = 50;
/** How long, in ms, rows read for one listener serve others, although a message may be registered meanwhile. */
const reuseMs = 250;

interface Listed {
  readonly row: StoredEvent;
  readonly tracked: boolean;
}

type Missing = ListenPage["missing"];

/** Events in the order of their seq, for listeners. */
export function createReadListen({ keys, link, live, events }: StoredParts) {
  /** Rows, and whether their subjects are registered. */
  const rows = createReadTogether<Listed>(
    async (seqs) => {
      const found = await events.rows(seqs);
      const tracked = await registered(found);
      return new Map(found.map((row) => [row.seq, { row, tracked: row.subject !== null && tracked.has(row.subject) }]));
    },
    () => 1,
    { ms: reuseMs, weight: most.keptRows },
  );

  const contents = createReadTogether<ListenedContent>(
    async (seqs) => {
      const [bodies, listed] = await Promise.all([readBodies(link, keys, seqs), rows.of(seqs)]);
      return new Map(
        seqs.flatMap((seq, index) => {
          const body = bodies[index] ?? null;
          const row = listed.get(seq)?.row;
          return body === null || row === undefined ? [] : [[seq, { headers: row.headers ?? {}, body }] as const];
        }),
      );
    },
    ({ body }) => body.length,
    { ms: reuseMs, weight: most.keptBytes },
  );

  /** Names of the subjects that are registered, of those the rows are about. */
  async function registered(listed: readonly StoredEvent[]): Promise<ReadonlySet<string>> {
    const names = [...new Set(listed.flatMap(({ subject }) => (subject === null ? [] : [subject])))];
    if (names.length === 0) return new Set();
    const found = await link.run((redis) => redis.mget(names.map(keys.of)));
    return new Set(names.filter((_, index) => isRegistered(found[index] ?? null)));
  }

  /** The wanted rows of a page, as far as their bodies fit, and the last seq that was read. */
  async function select(start: number, wanted: Wanted) {
    const seqs = await live.after(start, most.rows);
    const chosen: ListenRow[] = [];
    let through = start;
    let missing: Missing = null;
    let bytes = 0;
    // Large bodies fill the page with few rows, so begin with a small read.
    for (let from = 0, size = firstRows; from < seqs.length; from += size, size *= 2) {
      const listed = await rows.of(seqs.slice(from, from + size));
      for (const { row, tracked } of listed.values()) {
        if (bytes >= most.bytes) return { chosen, through, missing, atEnd: false };
        missing = withGap(missing, through, row.seq);
        through = row.seq;
        const shown = viewOf(row, tracked);
        if (shown === null || !wanted.row(shown)) continue;
        bytes += row.size;
        chosen.push(shown);
      }
    }
    return { chosen, through, missing, atEnd: seqs.length < most.rows };
  }

  async function receivedAt(seq: number): Promise<number | null> {
    return (await events.row(seq))?.receivedAt ?? null;
  }

  return {
    /** Call this when this process changes stored data. Changes of other processes are visible after `reuseMs`, twice that at most. */
    forget(): void {
      rows.forget();
      contents.forget();
    },
    /**
     * The wanted events after `start`. Only the purge leaves holes between seqs, so missing events are counted exactly. A
     * page may be empty.
     */
    async page(start: number, wanted: Wanted): Promise<OpenPage> {
      const { chosen, ...page } = await select(start, wanted);
      const read = await contents.of(chosen.map(({ seq }) => seq));
      return (use) => {
        const shown = chosen.flatMap((one) => {
          // Deleted by the purge.
          const content = read.get(one.seq);
          return content === undefined ? [] : [{ ...one, content: () => content }];
        });
        return use({ ...page, events: wanted.event === null ? shown : shown.filter(wanted.event) });
      };
    },
    /** Smallest and greatest seq, 0 when there are no events; `oldestAt` is when the oldest was received. */
    async ends(): Promise<{ oldest: number; newest: number; oldestAt: number | null }> {
      const bounds = await live.bounds();
      return bounds === null ? { oldest: 0, newest: 0, oldestAt: null } : { ...bounds, oldestAt: await receivedAt(bounds.oldest) };
    },
    /** The seq after which events were received at `time` (unix ms) or later, by binary search: events are stored in the order received. */
    async seqBefore(time: number): Promise<number> {
      const bounds = await live.bounds();
      if (bounds === null) return 0;
      let before = bounds.oldest - 1;
      let last = bounds.newest;
      while (before < last) {
        const middle = before + Math.floor((last - before) / 2) + 1;
        const [found] = await live.after(middle - 1, 1);
        const at = found === undefined ? null : await receivedAt(found);
        // `found` is the first event at or after `middle`.
        if (found !== undefined && at !== null && at < time) before = found;
        else last = middle - 1;
      }
      return before;
    },
  } satisfies ListenReading & { forget(): void };
}

function isRegistered(row: string | null): boolean {
  return row !== null && readSubjectRow(rowJson(row)).registeredAt !== null;
}

/** Adds the gap between the last seq that was read and the next one, which the purge left. */
function withGap(missing: Missing, through: number, seq: number): Missing {
  if (seq <= through + 1) return missing;
  return { from: missing?.from ?? through + 1, to: seq - 1, count: seq - through - 1 + (missing?.count ?? 0) };
}

function viewOf(row: StoredEvent, tracked: boolean): ListenRow | null {
  const { seq, id, kind, source, account, origin, receivedAt, disposition, status } = row;
  // Quarantined bodies are not events.
  if (id === null || kind === null) return null;
  return {
    seq,
    id: id as EventId,
    event: kind,
    source,
    account,
    origin,
    receivedAt,
    disposition,
    status,
    subject: subjectOf(row),
    tracked,
  };
}

interface ReadTogetherLimits {
  /** How long results are reused, in ms, at least; twice that at most. */
  readonly ms: number;
  /** Sum of the weights kept; at most twice that. */
  readonly weight: number;
}

/** Many listeners read the same events at about the same time: each event is read once and kept briefly. `elapsed` is in ms. */
export function createReadTogether<T>(
  read: (seqs: readonly number[]) => Promise<ReadonlyMap<number, T>>,
  weigh: (one: T) => number,
  limits: ReadTogetherLimits,
  elapsed: () => number = () => performance.now(),
) {
  type Batch = Promise<ReadonlyMap<number, T>>;
  let recent = new Map<number, Batch>();
  let older = new Map<number, Batch>();
  let since = elapsed();
  let weight = 0;

  function turnOver(): void {
    const age = elapsed() - since;
    if (age < limits.ms && weight < limits.weight) return;
    older = age < 2 * limits.ms ? recent : new Map();
    recent = new Map();
    since = elapsed();
    weight = 0;
  }

  function load(seqs: readonly number[]): void {
    if (seqs.length === 0) return;
    const into = recent;
    const batch = read(seqs);
    for (const seq of seqs) into.set(seq, batch);
    batch.then(
      (found) => {
        if (into === recent) for (const one of found.values()) weight += weigh(one);
      },
      () => {
        for (const seq of seqs) into.delete(seq);
      },
    );
  }

  return {
    /** Drops everything read so far, because it has changed. */
    forget(): void {
      recent = new Map();
      older = new Map();
      weight = 0;
    },
    /** Returns the stored ones of these seqs. Rejects as `read` does. */
    async of(seqs: readonly number[]): Promise<ReadonlyMap<number, T>> {
      turnOver();
      const known = (seq: number) => recent.get(seq) ?? older.get(seq);
      load(seqs.filter((seq) => known(seq) === undefined));
      const batches = await Promise.all(seqs.map(known));
      return new Map(
        seqs.flatMap((seq, index) => {
          const one = batches[index]?.get(seq);
          return one === undefined ? [] : [[seq, one] as const];
        }),
      );
    },
  };
}
