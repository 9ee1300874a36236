import { type Alarm, type AlarmChange, alarmKey } from "../../model/alarm.ts";
import type { EventId } from "../../model/ids.ts";
import type { LastPass } from "../../model/poll.ts";
import { readPass, type StoredPass, storedPass } from "../last-pass.ts";
import type { StoredCursor } from "../port.ts";
import type { RecentCall } from "../service-port.ts";
import type { Db } from "./file.ts";
import { createKept } from "./kept.ts";
import type { Names } from "./names.ts";

interface Gathered {
  readonly source: number;
  readonly secret: number;
  events: number;
  duplicates: number;
  firstAt: number;
  lastAt: number;
}

export type SecretUseCounts = ReturnType<typeof createSecretUseCounts>;

/** Above any number of a name, so that two numbers make one key. */
const most = 2 ** 26;

/** Counts secret usage in the transaction of the events. */
export function createSecretUseCounts(db: Db) {
  const add = db.prepare<Gathered>(`
    INSERT INTO secret_uses (source, secret, events, duplicates, first_at, last_at)
    VALUES (@source, @secret, @events, @duplicates, @firstAt, @lastAt)
    ON CONFLICT (source, secret) DO UPDATE SET events = events + excluded.events, duplicates = duplicates + excluded.duplicates,
      first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)`);
  const gathered = new Map<number, Gathered>();

  return {
    /** Counts a request that a secret verified. `isNew` is false for a known id. `at` is unix ms. */
    count(source: number, secret: number | null, isNew: boolean, at: number): void {
      // Events that the relay made itself have no signature.
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
    /** Writes the counts of this transaction, one row per secret. */
    write(): void {
      if (gathered.size === 0) return;
      for (const sum of gathered.values()) add.run(sum);
      gathered.clear();
    },
    /** Drops the counts of a transaction that rolled back. */
    forget: (): void => gathered.clear(),
  };
}

/** Most named cursors. Above this, the one that has not moved for longest is deleted. */
const mostCursors = 1_000;

/** The positions of named listeners. Call `move` inside a transaction. */
export function createCursors(db: Db) {
  const find = db.prepare<[string], number>("SELECT seq FROM cursors WHERE name = ?").pluck();
  const move = db
    .prepare<[string, number, number], number>(
      `INSERT INTO cursors (name, seq, moved_at) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET seq = max(seq, excluded.seq), moved_at = excluded.moved_at RETURNING seq`,
    )
    .pluck();
  const all = db.prepare<[], StoredCursor>("SELECT name, seq, moved_at AS movedAt FROM cursors ORDER BY moved_at DESC, name");
  const count = db.prepare<[], number>("SELECT count(*) FROM cursors").pluck();
  const forget = db.prepare("DELETE FROM cursors WHERE name = (SELECT name FROM cursors ORDER BY moved_at LIMIT 1)");

  return {
    find: (name: string): number | null => find.get(name) ?? null,
    list: (): readonly StoredCursor[] => all.all(),
    move(name: string, seq: number, at: number): number {
      if (find.get(name) === undefined && (count.get() ?? 0) >= mostCursors) forget.run();
      return move.get(name, seq, at) ?? seq;
    },
  };
}

/** What must happen once. Call `claimOnce` inside a transaction. */
export function createClaims(db: Db) {
  const find = db.prepare<[string], number>("SELECT 1 FROM claims WHERE key = ?").pluck();
  const insert = db.prepare<[string, number]>("INSERT OR IGNORE INTO claims (key, until) VALUES (?, ?)");
  const forget = db.prepare<[number]>("DELETE FROM claims WHERE until <= ?");
  return {
    isClaimed: (key: string): boolean => find.get(key) !== undefined,
    claimOnce(key: string, until: number, now: number): boolean {
      const isFirst = insert.run(key, until).changes === 1;
      // After the insert, so that a clock that is set back frees no key. Sign-ins are rare, so the table stays small.
      forget.run(Math.min(now, until - 1));
      return isFirst;
    },
  };
}

/** Expired rows that each request deletes. More than one, so that they do not pile up. */
const purgedAtOnce = 4;

/** The event id of a signed automation request. Call it inside a transaction. */
export function createRequests(db: Db) {
  const known = db
    .prepare<[string, number, number], string>("SELECT id FROM requests WHERE request = ? AND until > ? AND until <= ?")
    .pluck();
  const put = db.prepare<[string, string, number]>("INSERT OR REPLACE INTO requests (request, id, until) VALUES (?, ?, ?)");
  const purge = db.prepare<[number]>(
    `DELETE FROM requests WHERE seq IN (SELECT seq FROM requests WHERE until <= ? ORDER BY until LIMIT ${purgedAtOnce})`,
  );

  return function nameRequest(request: string, id: EventId, now: number, forMs: number): EventId {
    // A later time was written under a wrong clock.
    const same = known.get(request, now, now + forMs);
    if (same !== undefined) return same as EventId;
    purge.run(now);
    put.run(request, id, now + forMs);
    return id;
  };
}

/** Longer than a call can count against a cap of its minute. */
const keptMs = 180_000;

/** Files call the priority `interactive` by its former name. */
type StoredCall = Omit<RecentCall, "priority"> & { readonly priority: "send" | "ask" | "poll" };

/** The calls to the service of the last minutes. Call `note` inside a transaction. */
export function createRecentCalls(db: Db, names: Names) {
  const insert = db.prepare<[number, number, string, string]>("INSERT INTO recent_calls (at, account, cap, priority) VALUES (?, ?, ?, ?)");
  const forget = db.prepare<[number]>("DELETE FROM recent_calls WHERE at < ?");
  const select = db.prepare<[number, number], StoredCall>(
    "SELECT at, cap, priority FROM recent_calls WHERE at >= +? AND account = +? ORDER BY at",
  );
  return {
    note(account: string, { at, cap, priority }: RecentCall): void {
      forget.run(at - keptMs);
      insert.run(at, names.idOf("account", account), cap, priority === "interactive" ? "ask" : priority);
    },
    since(account: string, from: number): RecentCall[] {
      const id = names.find("account", account);
      if (id === null) return [];
      return select.all(from, id).map((row) => ({ ...row, priority: row.priority === "ask" ? "interactive" : row.priority }));
    },
  };
}

/** Wakes listeners once per transaction that stored events. */
export function createArrivals() {
  const waiting = new Set<() => void>();
  let isNew = false;
  return {
    /** The current transaction stored an event. */
    note(): void {
      isNew = true;
    },
    /** The transaction is committed. */
    publish(): void {
      if (!isNew) return;
      isNew = false;
      for (const wake of waiting) wake();
    },
    onStored(wake: () => void): () => void {
      waiting.add(wake);
      return () => void waiting.delete(wake);
    },
  };
}

/** Alarms in force, and the changes of them that were not reported yet: the process may end before it reports them. */
export function createAlarms(db: Db) {
  const inForce = createKept<Alarm>(db, "alarm");
  const untold = createKept<AlarmChange>(db, "untold");
  return {
    inForce: inForce.all,
    untold: untold.all,
    note(change: AlarmChange): boolean {
      inForce.put(alarmKey(change.alarm), change.state === "began" ? change.alarm : null);
      untold.put(JSON.stringify(change), change);
      return true;
    },
    told: (change: AlarmChange): void => untold.put(JSON.stringify(change), null),
  };
}

/** The last reconciliation pass of each account. */
export function createPasses(db: Db) {
  const passes = createKept<StoredPass>(db, "pass");
  return {
    note: (pass: LastPass): void => passes.put(pass.account, storedPass(pass)),
    all: (): LastPass[] => passes.all().map(readPass),
  };
}
