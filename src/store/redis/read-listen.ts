import type { EventId } from "../../model/ids.ts";
import type { ListenedContent, ListenPage, ListenRow } from "../../model/listen.ts";
import type { ListenReading, OpenPage, Wanted } from "../reading.ts";
import type { RedisLink } from "./client.ts";
import { readBodies } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import { subjectOf } from "./read-events.ts";
import { readSubjectRow, rowJson } from "./rows.ts";
import type { LiveSeqs, StoredEvent, StoredEvents } from "./stored-events.ts";

/** Limits of a page, which is filtered in one turn of the event loop, and of the rows and bodies kept in memory. */
const most = { rows: 400, bytes: 64 * 1024, keptRows: 4_000, keptBytes: 4 * 1024 * 1024 };
/** Rows read first; then twice as many each time. */
const firstRows = 50;
/** Ms for which rows read for one listener serve others, although a message may be registered meanwhile. */
const shownFor = 250;

interface Listed {
  readonly row: StoredEvent;
  readonly tracked: boolean;
}

type Missing = ListenPage["missing"];

interface ReadListenParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: LiveSeqs;
  readonly events: StoredEvents;
}

/** Events in the order of their seq, for those who listen. */
export function createReadListen({ keys, link, live, events }: ReadListenParts) {
  /** Rows, and whether their subjects are registered. */
  const rows = createReadTogether<Listed>(
    async (seqs) => {
      const found = await events.rows(seqs);
      const tracked = await registered(found);
      return new Map(found.map((row) => [row.seq, { row, tracked: row.subject !== null && tracked.has(row.subject) }]));
    },
    () => 1,
    { ms: shownFor, weight: most.keptRows },
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
    { ms: shownFor, weight: most.keptBytes },
  );

  /** Names of the subjects that are registered, of those the rows are about. */
  async function registered(listed: readonly StoredEvent[]): Promise<ReadonlySet<string>> {
    const names = [...new Set(listed.flatMap(({ subject }) => (subject === null ? [] : [subject])))];
    if (names.length === 0) return new Set();
    const found = await link.run((redis) => redis.mget(names.map(keys.of)));
    return new Set(names.filter((_, index) => isRegistered(found[index] ?? null)));
  }

  /** What the page is to be made of: the wanted rows, as far as their bodies have room, and how far was looked. */
  async function select(start: number, wanted: Wanted) {
    const seqs = await live.after(start, most.rows);
    const chosen: ListenRow[] = [];
    let through = start;
    let missing: Missing = null;
    let bytes = 0;
    // Where bodies are large the page is full after few, and more would be read for nothing.
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
    /** This process has changed what is stored; what others change is seen within `shownFor`, or twice that. */
    forget(): void {
      rows.forget();
      contents.forget();
    },
    /**
     * The next events after `start` that are wanted. Seqs have no holes but those that retention leaves, so what is
     * missing is counted exactly. Several pages may go by without an event.
     */
    async page(start: number, wanted: Wanted): Promise<OpenPage> {
      const { chosen, ...page } = await select(start, wanted);
      const read = await contents.of(chosen.map(({ seq }) => seq));
      return (use) => {
        const shown = chosen.flatMap((one) => {
          // Retention was faster.
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
    /** The seq after which the events received from `time` (unix ms) on are. By halving: events are stored in the order received. */
    async seqBefore(time: number): Promise<number> {
      const bounds = await live.bounds();
      if (bounds === null) return 0;
      let before = bounds.oldest - 1;
      let last = bounds.newest;
      while (before < last) {
        const middle = before + Math.floor((last - before) / 2) + 1;
        const [found] = await live.after(middle - 1, 1);
        const at = found === undefined ? null : await receivedAt(found);
        // What is found lies at `middle` or after it, and nothing is between the two.
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

/** What retention has taken between what was looked at and the next one there is. */
function withGap(missing: Missing, through: number, seq: number): Missing {
  if (seq <= through + 1) return missing;
  return { from: missing?.from ?? through + 1, to: seq - 1, count: seq - through - 1 + (missing?.count ?? 0) };
}

function viewOf(row: StoredEvent, tracked: boolean): ListenRow | null {
  const { seq, id, kind, source, account, origin, receivedAt, disposition, status } = row;
  // What is quarantined is no event.
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

interface ReadTogether<T> {
  /** Returns the stored ones of these seqs. Rejects as `read` does. */
  of(seqs: readonly number[]): Promise<ReadonlyMap<number, T>>;
  /** Drops everything read so far, because it has changed. */
  forget(): void;
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
): ReadTogether<T> {
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

  function ask(seqs: readonly number[]): void {
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
    forget() {
      recent = new Map();
      older = new Map();
      weight = 0;
    },
    async of(seqs) {
      turnOver();
      const known = (seq: number) => recent.get(seq) ?? older.get(seq);
      ask(seqs.filter((seq) => known(seq) === undefined));
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
