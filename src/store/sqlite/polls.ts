import type { ClaimedPoll, PollClaim, PollCounts, PollQuery, SettledPoll } from "../../model/poll.ts";
import type { CallCount, DayCalls } from "../service-port.ts";
import { callsKeptMs, mostCounted } from "../service-port.ts";

import type { Db } from "./file.ts";
import type { Names } from "./names.ts";
import { type MessageRow, stateOf } from "./track.ts";

/** Ranks run from 0 to this one. */
const lastRank = 31;

type PollRow = MessageRow & {
  message: number;
  since: number;
  rank: number;
  next_at: number;
  asks: number;
  failures: number;
  misses: number;
  /** Not `asked_at`: messages have a column of that name. */
  answered_at: number | null;
  read_at: number | null;
};

/** Polls, and counts of calls to the service. Call `claim`, `settle` and `addCalls` inside a transaction. */
export function createPolls(db: Db, names: Names) {
  const dueRows = db.prepare<[number, number, number, number], PollRow>(
    `SELECT m.*, a.message, a.since, a.rank, a.next_at, a.asks, a.failures, a.misses, a.asked_at AS answered_at,
       m.asked_at AS read_at
     FROM asks a JOIN messages m ON m.seq = a.message
     WHERE a.account = +? AND a.rank = +? AND a.next_at <= +? AND a.next_at IS NOT NULL ORDER BY a.next_at LIMIT +?`,
  );
  const lease = db.prepare<[number, number]>("UPDATE asks SET next_at = ? WHERE message = ?");
  const again = db.prepare<[number, number, number, number, number, number | null, number, number]>(
    "UPDATE asks SET next_at = ?, rank = ?, asks = ?, failures = ?, misses = ?, asked_at = ? WHERE message = ? AND next_at = ?",
  );
  const missing = db.prepare<[number, number, number]>(
    "UPDATE asks SET next_at = NULL, asked_at = ?, asks = asks + 1 WHERE message = ? AND next_at = ?",
  );
  const noteMissing = db.prepare<[number]>("UPDATE messages SET missing = 1 WHERE seq = ?");
  const over = db.prepare<[number, number]>("DELETE FROM asks WHERE message = ? AND next_at = ?");
  const countDue = db
    .prepare<[number, number, number, number, string, number, string], number>(
      `SELECT count(*) FROM (SELECT message, since FROM asks WHERE account = ? AND rank = ? AND next_at <= ? AND next_at IS NOT NULL
         LIMIT ${mostCounted}) a JOIN messages m ON m.seq = a.message
       WHERE a.since >= ? AND (m.status IS NULL OR m.status NOT IN (SELECT value FROM json_each(?)))
         AND (m.status IS NULL OR a.since <= ? OR m.status NOT IN (SELECT value FROM json_each(?)))`,
    )
    .pluck();
  const countUnpollable = db
    .prepare<[number, number, string], number>(
      `SELECT count(*) FROM (SELECT status FROM messages WHERE account = ? AND registered_at >= ? AND registered_at IS NOT NULL
         AND service_id IS NULL LIMIT ${mostCounted}) WHERE status IS NULL OR status NOT IN (SELECT value FROM json_each(?))`,
    )
    .pluck();
  const countMissing = db
    .prepare<[number, number], number>("SELECT count(*) FROM asks WHERE account = ? AND next_at IS NULL AND asked_at >= ?")
    .pluck();
  const callsFrom = db.prepare<[number, number], DayCalls>(
    "SELECT day, polls, others FROM service_calls WHERE account = ? AND day >= ? ORDER BY day",
  );
  const addCall = db.prepare(
    `INSERT INTO service_calls (account, day, polls, others) VALUES (?, ?, ?, ?)
     ON CONFLICT (account, day) DO UPDATE SET polls = polls + excluded.polls, others = others + excluded.others`,
  );
  const forgetCalls = db.prepare<[number, number]>("DELETE FROM service_calls WHERE account = ? AND day < ?");

  return {
    /** The least polled first, among them the longest due. */
    claim({ account, now, dueBy, after, limit, leaseMs }: PollClaim): ClaimedPoll[] {
      const id = names.find("account", account);
      if (id === null) return [];
      const until = now + leaseMs;
      const claimed: ClaimedPoll[] = [];
      for (let rank = 0; rank <= lastRank && claimed.length < limit; rank++) {
        for (const row of dueRows.all(id, rank, rank === 0 ? dueBy - after : dueBy, limit - claimed.length)) {
          lease.run(until, row.message);
          claimed.push({
            message: row.message,
            until,
            wamid: row.wamid,
            messageId: row.service_id as string,
            state: stateOf(row),
            since: row.since,
            dueAt: row.next_at,
            rank: row.rank,
            polls: row.asks,
            failures: row.failures,
            misses: row.misses,
            polledAt: row.answered_at,
            readAt: row.read_at,
          });
        }
      }
      return claimed;
    },
    settle(settled: readonly SettledPoll[]): void {
      for (const one of settled) {
        const { until } = one;
        const message = Number(one.message);
        if (one.end === "over") over.run(message, until);
        else if (one.end === "again") again.run(one.nextAt, one.rank, one.polls, one.failures, one.misses, one.polledAt, message, until);
        else if (missing.run(one.at, message, until).changes > 0) noteMissing.run(message);
      }
    },
    /** Exact up to some thousands. */
    count({ account, dueBy, after, from, resting, rare }: PollQuery): PollCounts {
      const id = names.find("account", account);
      if (id === null) return { due: 0, unpollable: 0, missing: 0 };
      const words = JSON.stringify(resting);
      let due = 0;
      for (let rank = 0; rank <= lastRank && due < mostCounted; rank++) {
        due += countDue.get(id, rank, rank === 0 ? dueBy - after : dueBy, from, words, rare.sentBy, JSON.stringify(rare.statuses)) ?? 0;
      }
      return {
        due,
        unpollable: countUnpollable.get(id, from, words) ?? 0,
        missing: countMissing.get(id, from) ?? 0,
      };
    },
    calls(account: string, from: number): DayCalls[] {
      const id = names.find("account", account);
      return id === null ? [] : callsFrom.all(id, from);
    },
    addCalls(counts: readonly CallCount[]): void {
      for (const { account, day, polls, others } of counts) {
        const id = names.idOf("account", account);
        addCall.run(id, day, polls, others);
        forgetCalls.run(id, day - callsKeptMs);
      }
    },
  };
}
