import type { RecentCall } from "../asks.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

/** Longer than a call can count against a cap of its minute. */
const keptMs = 180_000;

/** The calls of the last minutes. `note` is for inside a transaction. */
export function createRecentCalls(db: Db, names: Names) {
  const insert = db.prepare<[number, number, string, string]>("INSERT INTO recent_calls (at, account, cap, priority) VALUES (?, ?, ?, ?)");
  const forget = db.prepare<[number]>("DELETE FROM recent_calls WHERE at < ?");
  const select = db.prepare<[number, number], RecentCall>(
    "SELECT at, cap, priority FROM recent_calls WHERE at >= ? AND account = ? ORDER BY at",
  );
  return {
    note(account: string, { at, cap, priority }: RecentCall): void {
      forget.run(at - keptMs);
      insert.run(at, names.idOf("account", account), cap, priority);
    },
    /** Earliest first. */
    since(account: string, from: number): RecentCall[] {
      const id = names.find("account", account);
      return id === null ? [] : select.all(from, id);
    },
  };
}
