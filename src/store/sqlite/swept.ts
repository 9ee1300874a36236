import type { Db } from "./open.ts";

type What = "events" | "deliveries";

/**
 * Before which moment (unix ms) retention may have taken away events (by when they were received) and deliveries (by
 * when they were settled): `audit` finds what is gone without it. For inside a transaction; `at` is null while nothing was taken.
 */
export function createSwept(db: Db) {
  const select = db.prepare<[string], string>("SELECT value FROM meta WHERE key = ?").pluck();
  const upsert = db.readonly
    ? null
    : db.prepare<[string, string]>(
        `INSERT INTO meta (key, value) VALUES (?, ?)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)`,
      );
  return {
    before(what: What): number | null {
      const value = select.get(`swept ${what}`);
      return value === undefined ? null : Number(value);
    },
    note(what: What, before: number): void {
      if (upsert === null) throw new Error("nothing is swept through a reader");
      upsert.run(`swept ${what}`, String(before));
    },
  };
}
