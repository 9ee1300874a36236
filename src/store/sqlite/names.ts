import type { Db } from "./open.ts";

export type NameKind = "account" | "source" | "route" | "kind" | "secret";

/** Words kept once in the file, with their numbers in memory. */
export interface Names {
  /** The number of a word; writes it when it is new, so only inside a transaction. */
  idOf(kind: NameKind, name: string): number;
  /** The number of a word that is there; null otherwise. Writes nothing. */
  find(kind: NameKind, name: string): number | null;
  nameOf(id: number): string;
  /** Forgets what memory holds; after a rollback a number may not be in the file. */
  forget(): void;
}

/** Event kinds come from outside; beyond this many the memory copy starts again. */
const maxCached = 10_000;

export function createNames(db: Db): Names {
  const select = db.prepare<[string, string], number>("SELECT id FROM names WHERE kind = ? AND name = ?").pluck();
  const selectName = db.prepare<[number], string>("SELECT name FROM names WHERE id = ?").pluck();
  const insert = db.readonly ? null : db.prepare<[string, string]>("INSERT INTO names (kind, name) VALUES (?, ?)");
  let ids = new Map<string, number>();
  let names = new Map<number, string>();

  function remember(key: string, id: number): number {
    if (ids.size >= maxCached) ids = new Map();
    ids.set(key, id);
    return id;
  }

  function find(kind: NameKind, name: string): number | null {
    const key = `${kind}\0${name}`;
    const known = ids.get(key);
    if (known !== undefined) return known;
    const id = select.get(kind, name);
    return id === undefined ? null : remember(key, id);
  }

  return {
    find,
    idOf(kind, name) {
      const found = find(kind, name);
      if (found !== null) return found;
      if (insert === null) throw new Error("names cannot be written through a reader");
      return remember(`${kind}\0${name}`, Number(insert.run(kind, name).lastInsertRowid));
    },
    nameOf(id) {
      let name = names.get(id);
      if (name === undefined) {
        name = selectName.get(id);
        if (name === undefined) throw new Error(`no name ${id}`);
        if (names.size >= maxCached) names = new Map();
        names.set(id, name);
      }
      return name;
    },
    forget() {
      ids = new Map();
      names = new Map();
    },
  };
}
