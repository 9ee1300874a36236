import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";

const group = 100;

/**
 * What SQLite takes to dedupe, track and queue statuses of new messages, in transactions of 100,
 * with nothing around it. `before` are stored first, so that both sides write to indexes of about
 * one size. Milliseconds for a thousand, the median.
 */
export function measureYardstick(before: number, thousands: number): number {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-bench-"));
  const db = new Database(join(folder, "yardstick.db"));
  try {
    for (const pragma of [
      "journal_mode = WAL",
      "synchronous = FULL",
      "wal_autocheckpoint = 4000",
      "cache_size = -65536",
    ])
      db.pragma(pragma);
    db.exec(`CREATE TABLE events(seq INTEGER PRIMARY KEY, id BLOB, subject INTEGER, status TEXT, received_at INTEGER, plan INTEGER, body BLOB);
      CREATE UNIQUE INDEX events_id ON events(id);
      CREATE TABLE subjects(seq INTEGER PRIMARY KEY, key BLOB, name TEXT, status TEXT, times TEXT, updated_at INTEGER);
      CREATE UNIQUE INDEX subjects_key ON subjects(key);
      CREATE TABLE queue(lane INTEGER, route TEXT, event INTEGER, next_at INTEGER, PRIMARY KEY(lane, route, event)) WITHOUT ROWID;
      CREATE INDEX queue_due ON queue(route, next_at, event);`);
    const known = db.prepare("SELECT seq FROM events WHERE id = ?");
    const subject = db.prepare("SELECT seq, status, times FROM subjects WHERE key = ?");
    const addSubject = db.prepare(
      "INSERT INTO subjects(key, name, status, times, updated_at) VALUES (?, ?, ?, ?, ?)",
    );
    const addEvent = db.prepare(
      "INSERT INTO events(id, subject, status, received_at, plan, body) VALUES (?, ?, ?, ?, 1, ?)",
    );
    const addToQueue = db.prepare("INSERT INTO queue VALUES (?, 'tracked', ?, ?)");
    const body = Buffer.alloc(475, "a");
    const store = db.transaction((names: readonly string[]) => {
      const now = Date.now();
      for (const name of names) {
        const id = randomBytes(16);
        const key = createHash("sha256").update(name).digest().subarray(0, 16);
        if (known.get(id) !== undefined || subject.get(key) !== undefined)
          throw new Error("each status is new");
        const lane = addSubject.run(
          key,
          name,
          "sent",
          JSON.stringify({ sent: now }),
          now,
        ).lastInsertRowid;
        addToQueue.run(lane, addEvent.run(id, lane, "sent", now, body).lastInsertRowid, now);
      }
    });
    let made = 0;
    const thousand = (): number => {
      const names = Array.from(
        { length: 1_000 },
        () => `wamid.HBgLMTY1MDU1NTEyMzQVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA${(made++).toString(36)}`,
      );
      const startedAt = performance.now();
      for (let from = 0; from < names.length; from += group)
        store.immediate(names.slice(from, from + group));
      return performance.now() - startedAt;
    };
    while (made < before) thousand();
    const times = Array.from({ length: thousands }, thousand).sort((a, b) => a - b);
    return times[times.length >> 1] as number;
  } finally {
    db.close();
    rmSync(folder, { recursive: true });
  }
}
