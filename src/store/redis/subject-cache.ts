import type { RedisLink } from "./client.ts";
import type { Keys, SubjectName } from "./keys.ts";

/**
 * Rows of subjects as this process last saw them. What is remembered may be old: the script holds it to the row's version,
 * and gives back the row when it is another.
 */
export interface SubjectCache {
  /** The stored text, `""` for none; undefined when nothing is remembered. */
  known(name: SubjectName): string | undefined;
  /** Reads it, with the others of this turn in one round trip. Rejects with `StoreUnavailable`. */
  load(name: SubjectName): Promise<string>;
  remember(name: SubjectName, row: string): void;
}

interface Waiting {
  readonly promise: Promise<string>;
  readonly resolve: (row: string) => void;
  readonly reject: (error: unknown) => void;
}

/** `most`: rows remembered, at the least as many as that and at most twice. */
export function createSubjectCache(keys: Keys, link: RedisLink, most = 10_000): SubjectCache {
  // Two generations, because a map that loses its oldest entry each time is searched for it past all that it has lost.
  let rows = new Map<SubjectName, string>();
  let older = new Map<SubjectName, string>();
  let waiting = new Map<SubjectName, Waiting>();

  async function loadAll(): Promise<void> {
    const all = waiting;
    waiting = new Map();
    try {
      const found = await link.run((redis) => redis.mget([...all.keys()].map(keys.of)));
      let n = 0;
      for (const [name, { resolve }] of all) {
        const row = found[n++] ?? "";
        // Of what is not there nothing is remembered: it will be in a moment.
        if (row !== "") remember(name, row);
        resolve(row);
      }
    } catch (error) {
      for (const { reject } of all.values()) reject(error);
    }
  }

  function remember(name: SubjectName, row: string): void {
    if (rows.size >= most) {
      older = rows;
      rows = new Map();
    }
    rows.set(name, row);
  }

  return {
    known: (name) => rows.get(name) ?? older.get(name),
    load(name) {
      const asked = waiting.get(name);
      if (asked !== undefined) return asked.promise;
      if (waiting.size === 0) setImmediate(loadAll);
      const asking = Promise.withResolvers<string>();
      waiting.set(name, asking);
      return asking.promise;
    },
    remember,
  };
}
