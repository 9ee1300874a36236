import type { Db } from "./open.ts";

/** Most names kept; past them the one that has not moved for longest is forgotten. */
const mostCursors = 1_000;

/** How far each of those who listen under a name has come. */
export function createCursors(db: Db) {
  const find = db.prepare<[string], number>("SELECT seq FROM cursors WHERE name = ?").pluck();
  const move = db
    .prepare<[string, number, number], number>(
      `INSERT INTO cursors (name, seq, moved_at) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET seq = max(seq, excluded.seq), moved_at = excluded.moved_at RETURNING seq`,
    )
    .pluck();
  const count = db.prepare<[], number>("SELECT count(*) FROM cursors").pluck();
  const forget = db.prepare("DELETE FROM cursors WHERE name = (SELECT name FROM cursors ORDER BY moved_at LIMIT 1)");

  return {
    /** Null when nobody has listened under this name. */
    find: (name: string): number | null => find.get(name) ?? null,
    /** Never goes back: gives where it stands now. For inside a transaction. */
    move(name: string, seq: number, at: number): number {
      if (find.get(name) === undefined && (count.get() ?? 0) >= mostCursors) forget.run();
      return move.get(name, seq, at) ?? seq;
    },
  };
}
