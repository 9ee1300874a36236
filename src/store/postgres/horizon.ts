import { events } from "../schema/tables.ts";
import { rows, type Work } from "../sql/ops.ts";
import { as, raw, select, sql, typed } from "../sql/sql.ts";
import { put, values } from "../work/state.ts";
import { startOfServer } from "./server.ts";

/** Most marks, and most events counted for one, so that a look stays short. */
const mostMarks = 4;
const mostCounted = 10_000;

const e = as(events, "e");

const key = "store/horizon";

/** Stores a horizon for the processes that start later: retention leaves gaps, too, and many events take many looks. */
export const noteHorizon = (known: number): Work<void> => put(key, known);

/**
 * The seq up to which no event appears any more. Sequences number events before their transactions are committed, so a later
 * number may be seen first. A number that never appears, because its transaction was rolled back, is passed once all
 * transactions have ended that may have taken it: each has its transaction number before it takes one (runner.ts).
 */
export function createHorizon() {
  let known: number | null = null;
  let lastServer = 0;
  let marks: { readonly last: number; readonly xid: number }[] = [];

  return {
    /**
     * Looks again. Run it outside of a transaction: the snapshot and the mark, which is a transaction number, must come
     * after the last seq is read. One look at a time.
     */
    *look(): Work<number> {
      known ??= (yield* values<number>([key]))[0] ?? 0;
      const [sequence] =
        yield* rows(
          select({
            last: typed<number>(sql`CASE WHEN s.is_called THEN s.last_value ELSE 0 END`),
            server: typed<number>(raw(startOfServer)),
          })`FROM events_seq s`,
        );
      const { last, server } = sequence ?? { last: 0, server: 0 };
      // Another server's transaction numbers mean nothing here. Its events have higher numbers than those of the one before.
      if (server !== lastServer) marks = [];
      lastServer = server;
      const [snapshot] = yield* rows(select({ xmin: typed<number>(sql`pg_snapshot_xmin(pg_current_snapshot())::text::bigint`) })``);
      const xmin = snapshot?.xmin ?? 0;
      for (const mark of marks) if (mark.xid <= xmin) known = Math.max(known, mark.last);
      marks = marks.filter(({ xid }) => xid > xmin);
      if (known >= last) return known;
      const to = Math.min(last, known + mostCounted);
      const present = yield* rows(select({ seq: e.seq })`FROM events e WHERE e.seq > ${known} AND e.seq <= ${to} ORDER BY e.seq`);
      for (const { seq } of present) {
        if (seq !== known + 1) break;
        known = seq;
      }
      // A mark also helps a process that starts far behind.
      if (known < last && marks.length < mostMarks && marks.at(-1)?.last !== last) {
        const [own] = yield* rows(select({ xid: typed<number>(sql`pg_current_xact_id()::text::bigint`) })``);
        if (own !== undefined) marks.push({ last, xid: own.xid });
      }
      return known;
    },
  };
}
