import type { Db } from "./open.ts";

interface Gathered {
  readonly source: number;
  readonly secret: number;
  events: number;
  duplicates: number;
  firstAt: number;
  lastAt: number;
}

export interface Proofs {
  /** One request that a secret proved; `isNew` is false for a known id. `at` is unix ms. */
  count(source: number, secret: number | null, isNew: boolean, at: number): void;
  /** Writes what was counted in this transaction, one row for each secret however many events it proved. */
  write(): void;
  /** Forgets what was counted; after a rollback it did not happen. */
  forget(): void;
}

/** Room for the numbers of names in one key. */
const most = 2 ** 26;

/** Counts which secret proved how much, durable together with the events themselves. For inside a transaction. */
export function createProofs(db: Db): Proofs {
  const add = db.prepare<Gathered>(`
    INSERT INTO proofs (source, secret, events, duplicates, first_at, last_at)
    VALUES (@source, @secret, @events, @duplicates, @firstAt, @lastAt)
    ON CONFLICT (source, secret) DO UPDATE SET events = events + excluded.events, duplicates = duplicates + excluded.duplicates,
      first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)`);
  const gathered = new Map<number, Gathered>();

  return {
    count(source, secret, isNew, at) {
      // Events that the relay made itself need no proof.
      if (secret === null) return;
      const key = source * most + secret;
      let sum = gathered.get(key);
      if (sum === undefined) {
        sum = { source, secret, events: 0, duplicates: 0, firstAt: at, lastAt: at };
        gathered.set(key, sum);
      }
      if (isNew) sum.events += 1;
      else sum.duplicates += 1;
      // The machine's clock can be set back.
      sum.firstAt = Math.min(sum.firstAt, at);
      sum.lastAt = Math.max(sum.lastAt, at);
    },
    write() {
      if (gathered.size === 0) return;
      for (const sum of gathered.values()) add.run(sum);
      gathered.clear();
    },
    forget: () => gathered.clear(),
  };
}
