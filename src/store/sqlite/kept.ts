import type { Db } from "./file.ts";

/** Small values as JSON in the table `meta`, each under its own key: what a process keeps over a restart. */
export function createKept<T>(db: Db, what: string) {
  const one = db.prepare<[string], string>("SELECT value FROM meta WHERE key = ?").pluck();
  const all = db.prepare<[string, string], string>("SELECT value FROM meta WHERE key >= ? AND key < ? ORDER BY key").pluck();
  const upsert = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
  const write = db.readonly ? null : { put: db.prepare(upsert), drop: db.prepare("DELETE FROM meta WHERE key = ?") };
  const keyOf = (name: string): string => `${what} ${name}`;
  const read = (json: string): T => JSON.parse(json) as T;

  return {
    get(name: string): T | null {
      const json = one.get(keyOf(name));
      return json === undefined ? null : read(json);
    },
    all: (): T[] => all.all(keyOf(""), `${what}!`).map(read),
    /** Null: it is deleted. Call it inside a transaction. */
    put(name: string, value: T | null): void {
      if (write === null) throw new Error("nothing is kept through a reader");
      if (value === null) write.drop.run(keyOf(name));
      else write.put.run(keyOf(name), JSON.stringify(value));
    },
  };
}
