import { audit } from "../audit/audit.ts";
import { type Inspecting, StoreUnavailable } from "../port.ts";
import { createReading, type StoreReading } from "../read/reading.ts";
import { stats } from "../read/stats.ts";
import { events } from "../schema/tables.ts";
import { first, rows, type Work } from "../sql/ops.ts";
import { as, raw, select, sql } from "../sql/sql.ts";
import { put, value } from "../work/state.ts";
import { type PostgresSettings, startOfServer } from "./connect.ts";
import { createReads, createSessions, type SessionHooks } from "./sessions.ts";

const mostFree = 4;

export function createReader(settings: PostgresSettings, hooks: SessionHooks) {
  const single = createReads(settings, hooks);
  const free = createSessions(settings, { most: mostFree, purpose: "free", hooks });
  const horizon = createHorizon(single.read);
  const closing = new AbortController();

  /** The client that waits for a long read gets an answer at once. */
  function untilClosed<T>(reading: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const end = (): void => reject(new StoreUnavailable("the relay is stopping"));
    if (closing.signal.aborted) end();
    closing.signal.addEventListener("abort", end, { once: true });
    return Promise.race([reading, promise]).finally(() =>
      closing.signal.removeEventListener("abort", end),
    );
  }

  const aside = <T>(work: Work<T>): Promise<T> => untilClosed(free.read(work));
  const inspecting: Inspecting = {
    stats: () => aside(stats()),
    audit: (order, progress) => untilClosed(free.readSnapshot(audit(order, progress))),
    async close() {
      closing.abort();
    },
  };
  const browse: StoreReading = {
    ...createReading({ read: aside, until: horizon.look }),
    isAside: () => true,
  };

  return {
    single: single.read,
    free: free.read,
    read: { ...createReading({ read: single.read, until: horizon.look }), isAside: () => true },
    browse,
    inspecting,
    horizon,
    giveUp(): void {
      single.giveUp();
      free.giveUp();
    },
    async close(): Promise<void> {
      await inspecting.close();
      await Promise.all([single.close(), free.close()]);
    },
  };
}

const mostMarks = 4;
const mostCounted = 10_000;

const e = as(events, "e");

const sequence = sql<{
  last: number;
  server: number;
}>`SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS last,
  ${raw(startOfServer)} AS server FROM events_seq s`;

const key = "store/horizon";

/** A process that starts later need not look through gaps again. */
export const noteHorizon = (known: number): Work<void> => put(key, known);

/**
 * The seq up to which no event appears any more. Transactions take numbers before they commit, so a
 * later number may be seen first. A number that never appears is passed once all transactions have
 * ended that may have taken it: each has its transaction number before (runner.ts).
 */
export function createHorizon(read: <T>(work: Work<T>) => Promise<T>) {
  let known: number | null = null;
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<number> | null = null;
  let lastServer = 0;
  let marks: { readonly last: number; readonly xid: number }[] = [];

  /**
   * Run it outside of a transaction: the snapshot and the mark must come after the last seq is
   * read.
   */
  function* lookAgain(): Work<number> {
    known ??= (yield* value<number>(key)) ?? 0;
    const { last, server } = (yield* first(sequence)) ?? { last: 0, server: 0 };
    // Another server's transaction numbers mean nothing here.
    if (server !== lastServer) marks = [];
    lastServer = server;
    const { xmin } = (yield* first(
      sql<{ xmin: number }>`SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin`,
    )) ?? {
      xmin: 0,
    };
    for (const mark of marks) if (mark.xid <= xmin) known = Math.max(known, mark.last);
    marks = marks.filter(({ xid }) => xid > xmin);
    if (known >= last) return known;
    const to = Math.min(last, known + mostCounted);
    const present = yield* rows(
      select({
        seq: e.seq,
      })`FROM events e WHERE e.seq > ${known} AND e.seq <= ${to} ORDER BY e.seq`,
    );
    for (const { seq } of present) {
      if (seq !== known + 1) break;
      known = seq;
    }
    if (known < last && marks.length < mostMarks && marks.at(-1)?.last !== last) {
      const own = yield* first(
        sql<{ xid: number }>`SELECT pg_current_xact_id()::text::bigint AS xid`,
      );
      if (own !== null) marks.push({ last, xid: own.xid });
    }
    return known;
  }

  return {
    known: () => known ?? 0,
    /** Looks again. Those that ask during a look share the next one. */
    look(): Promise<number> {
      next ??= running
        .catch(() => {})
        .then(() => {
          next = null;
          return read(lookAgain());
        });
      running = next;
      return next;
    },
  };
}
