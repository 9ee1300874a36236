import type { Covering, HydrationPass, ReadMessage, TrackedMessage, TrackedQuery } from "../../model/hydration.ts";
import type { EventId } from "../../model/ids.ts";
import { lastRead, passesKeptMs } from "../service-port.ts";

import type { Db } from "./file.ts";
import type { createHydrations } from "./hydrations.ts";
import { type Names, unpackEventId } from "./names.ts";

interface TrackedRow extends Omit<TrackedMessage, "readAt" | "isMissing"> {
  readAt: number | null;
  answeredAt: number | null;
  isMissing: number;
}

interface OpenRow {
  seq: number;
  through: number;
  startedAt: number;
  polled: number;
}

/** Hydration passes and the messages they read. Call `begin`, `note` and `end` inside a transaction. */
export function createHydrationPasses(db: Db, names: Names, hydrations: Pick<ReturnType<typeof createHydrations>, "covered">) {
  const open = db.prepare<[number], OpenRow>(
    "SELECT seq, through, started_at AS startedAt, asked AS polled FROM hydration_passes WHERE account = ? AND ended_at IS NULL",
  );
  const newest = db.prepare<[number], number | null>("SELECT max(event) FROM hydrations WHERE account = ? AND state = 0").pluck();
  const first = db.prepare<[number, number], { id: Buffer | string; source: number }>(
    `SELECT e.id, e.source FROM hydrations h JOIN events e ON e.seq = h.event
     WHERE h.account = ? AND h.state = 0 AND h.event <= ? ORDER BY h.event LIMIT 1`,
  );
  const insert = db.prepare<[number, number, number]>(
    "INSERT INTO hydration_passes (account, through, started_at, asked) VALUES (?, ?, ?, 0)",
  );
  const close = db.prepare<[number, number]>("UPDATE hydration_passes SET ended_at = ? WHERE seq = ?");
  const forget = db.prepare<[number, number]>("DELETE FROM hydration_passes WHERE account = ? AND ended_at < ?");
  const count = db.prepare<[number, number]>("UPDATE hydration_passes SET asked = asked + ? WHERE seq = ?");
  const spent = db
    .prepare<[number, number], number | null>(
      "SELECT sum(asked) FROM hydration_passes WHERE account = ? AND (ended_at IS NULL OR ended_at > ?)",
    )
    .pluck();
  const read = db.prepare<[number, number]>("UPDATE messages SET asked_at = ? WHERE seq = ?");
  const tracked = (hasId: string) =>
    db.prepare<[{ account: number; from: number; registeredAt: number; message: number; limit: number }], TrackedRow>(
      `SELECT m.seq AS message, m.service_id AS messageId, m.status, m.registered_at AS registeredAt, m.told_sent_at AS sentAt,
         m.updated_at AS changedAt, m.asked_at AS readAt, a.asked_at AS answeredAt,
         m.missing IS NOT NULL AS isMissing
       FROM messages m LEFT JOIN asks a ON a.message = m.seq
       WHERE m.account = @account AND m.registered_at IS NOT NULL AND m.service_id ${hasId} AND m.registered_at >= @from
         AND (m.registered_at, m.seq) < (@registeredAt, @message)
       ORDER BY m.registered_at DESC, m.seq DESC LIMIT @limit`,
    );
  const withId = tracked("IS NOT NULL");
  const withoutId = tracked("IS NULL");

  function begun(account: number, name: string): OpenRow | null {
    const row = open.get(account);
    return row === undefined || hydrations.covered({ account: name, through: row.through }) === null ? null : row;
  }

  return {
    begin(name: string, now: number): HydrationPass | null {
      const account = names.find("account", name);
      if (account === null) return null;
      let row = begun(account, name);
      if (row === null) {
        // A pass that a crash left open after all its events settled.
        const left = open.get(account);
        if (left !== undefined) close.run(now, left.seq);
        const through = newest.get(account);
        if (through === null || through === undefined) return null;
        insert.run(account, through, now);
        row = open.get(account) ?? null;
      }
      if (row === null) return null;
      const cause = first.get(account, row.through);
      const covered = hydrations.covered({ account: name, through: row.through });
      if (cause === undefined || covered === null) return null;
      return { ...row, account: name, covered, source: names.nameOf(cause.source), because: unpackEventId(cause.id) as EventId };
    },
    note({ seq }: Covering, polled: number, messages: readonly ReadMessage[]): void {
      count.run(polled, Number(seq));
      for (const { message, at } of messages) read.run(at, Number(message));
    },
    end({ seq, account }: Covering, now: number): void {
      close.run(now, Number(seq));
      forget.run(names.idOf("account", account), now - passesKeptMs);
    },
    callsSince(account: string, since: number): number {
      const id = names.find("account", account);
      return id === null ? 0 : (spent.get(id, since) ?? 0);
    },
    trackedMessages(account: string, query: TrackedQuery): TrackedMessage[] {
      const id = names.find("account", account);
      if (id === null) return [];
      const rows = (query.withId ? withId : withoutId).all({
        account: id,
        from: query.from,
        registeredAt: query.before.registeredAt,
        message: Number(query.before.message ?? Number.MAX_SAFE_INTEGER),
        limit: query.limit,
      });
      return rows.map(({ answeredAt, readAt, isMissing, ...row }) => ({
        ...row,
        readAt: lastRead(readAt, answeredAt),
        isMissing: isMissing === 1,
      }));
    },
  };
}
