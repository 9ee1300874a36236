import { randomUUID } from "node:crypto";
import { type Alarm, type AlarmChange, alarmKey } from "../../model/alarm.ts";
import type { Clock } from "../../model/clock.ts";
import type { LastPass } from "../../model/poll.ts";
import { readPass, type StoredPass, storedPass } from "../last-pass.ts";
import type { AccountObservation, ObservationsRead, StoredCursor } from "../port.ts";
import type { CallCount, DayCalls, RecentCall } from "../service-port.ts";

import { callsKeptMs } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, type Operation, pushOperations } from "./commit.ts";
import type { Keys } from "./keys.ts";
import { rowJson } from "./rows.ts";
import { type Argument, readScript } from "./script.ts";
import type { Transact } from "./transact.ts";

const noteAlarmScript = readScript("note-alarm");

/**
 * Active alarms: hash `alarms`, one field per alarm. The process that holds the lease reads and writes them; if two watch
 * at once because a lease ran out unnoticed, only one of them notifies. Hash `unsent` holds changes that were not reported
 * yet, each with the process that should do it; the next holder of the lease takes over.
 */
export function createAlarms(keys: Keys, link: RedisLink) {
  const key = keys.of("alarms");
  const unsent = keys.of("unsent");
  const notifier = randomUUID();

  return {
    async alarmsInForce(): Promise<readonly Alarm[]> {
      const found = await link.run((redis) => redis.hvals(key));
      return found.map((json) => JSON.parse(json) as Alarm);
    },
    async noteAlarm(change: AlarmChange): Promise<boolean> {
      const { state, alarm } = change;
      const args = [keys.base, alarmKey(alarm), state, JSON.stringify(alarm), JSON.stringify(change), notifier];
      return (await link.run((redis) => noteAlarmScript.run(redis, key, args))) === 1;
    },
    async untoldAlarms(): Promise<readonly AlarmChange[]> {
      const found = await link.run((redis) => redis.hkeys(unsent));
      return found.map((json) => JSON.parse(json) as AlarmChange);
    },
    async alarmTold(change: AlarmChange): Promise<void> {
      await link.run((redis) => redis.hdel(unsent, JSON.stringify(change)));
    },
  };
}

/** The last reconciliation pass of each account: hash `reconciled`. */
export function createPasses(keys: Keys, link: RedisLink) {
  const key = keys.of("reconciled");
  return {
    async notePass(pass: LastPass): Promise<void> {
      await link.run((redis) => redis.hset(key, pass.account, JSON.stringify(storedPass(pass))));
    },
    async lastPasses(): Promise<readonly LastPass[]> {
      const found = await link.run((redis) => redis.hvals(key));
      return found.map((json) => readPass(JSON.parse(json) as StoredPass));
    },
  };
}

/** The longest `silence.after`. */
const observationsKeptMs = 86_400_000;
/** Entries per read; a process writes one per account four times a minute. */
const mostRead = 100_000;

/** Observations of webhooks by every process: stream `observations`, read by the process that holds the lease. */
export function createObservations(keys: Keys, link: RedisLink) {
  const key = keys.of("observations");

  return {
    async noteObservations(observations: readonly AccountObservation[]): Promise<void> {
      for (const observation of observations) {
        const oldest = observation.at - observationsKeptMs;
        await link.run((redis) => redis.xadd(key, "MINID", "~", String(oldest), "*", "s", JSON.stringify(observation)));
      }
    },
    async observations(place: string | null, from: number): Promise<ObservationsRead> {
      const start = place === null ? String(Math.max(0, Math.floor(from))) : `(${place}`;
      const entries = await link.run((redis) => redis.xrange(key, start, "+", "COUNT", mostRead));
      return {
        observations: entries.map(([, fields]) => JSON.parse(fields[1] as string) as AccountObservation),
        place: entries.at(-1)?.[0] ?? place,
      };
    },
  };
}

/** How far the clocks of processes may differ: a key must not be free again for a process whose clock is behind. */
const clocksDifferByMs = 600_000;

/** What must happen once: keys `once:<key>` that expire. */
export function createClaims(keys: Keys, link: RedisLink) {
  const keyOf = (key: string): string => keys.of(`once:${key}`);
  return {
    isClaimed: async (key: string): Promise<boolean> => (await link.run((redis) => redis.exists(keyOf(key)))) === 1,
    async claimOnce(key: string, until: number, now: number): Promise<boolean> {
      const forMs = String(Math.max(1, until - now) + clocksDifferByMs);
      return (await link.run((redis) => redis.call("SET", keyOf(key), "1", "NX", "PX", forMs))) === "OK";
    },
  };
}

/** Cursors kept; beyond that, the one that has not moved for longest is deleted. */
const mostCursors = 1_000;

/** Named cursors: the last seq that each listener has acknowledged. */
export function createCursors(keys: Keys, link: RedisLink, transact: Transact) {
  const names = keys.of("cursors");
  const rowKey = (name: string): string => keys.of(`cursor:${name}`);

  return {
    /** Null when there is no cursor of this name. */
    async findCursor(name: string): Promise<number | null> {
      const found = await link.run((redis) => redis.get(rowKey(name)));
      return found === null ? null : Number(rowJson(found));
    },
    async listCursors(): Promise<StoredCursor[]> {
      const scored = await link.run((redis) => redis.zrevrange(names, 0, -1, "WITHSCORES"));
      const moved = scored.flatMap((name, at) => (at % 2 === 0 ? [{ name, movedAt: Number(scored[at + 1]) }] : []));
      if (moved.length === 0) return [];
      const rows = await link.run((redis) => redis.mget(moved.map(({ name }) => rowKey(name))));
      // One that was deleted in between has no row.
      return moved.flatMap((cursor, at) => (rows[at] == null ? [] : [{ ...cursor, seq: Number(rowJson(rows[at])) }]));
    },
    /** Never moves back; returns the cursor's position. */
    moveCursor: (name: string, seq: number, at: number): Promise<number> =>
      transact(async (tx) => {
        const stored = await tx.read(rowKey(name));
        const moved = Math.max(seq, Number(stored ?? seq));
        tx.put(rowKey(name), String(moved));
        tx.operate(["list_cursor", name, String(at), String(mostCursors)]);
        return moved;
      }),
  };
}

const leaseScript = readScript("lease");

/**
 * Leader leases for work that one process does for all. Redis keeps the time, so clocks need not agree. A stalled process
 * can find that another does the same work: leases save work, and no guarantee rests on them.
 */
export function createLeaderLeases(base: string, link: RedisLink) {
  const holder = randomUUID();
  const taken = new Set<string>();

  async function request(name: string, ms: string): Promise<boolean> {
    return (await link.run((redis) => leaseScript.run(redis, `${base}lease:${name}`, [holder, ms]))) === 1;
  }

  return {
    /** Whether this process holds the lease for the next `forMs`. Taking it again renews it. */
    async take(name: string, forMs: number): Promise<boolean> {
      const isOurs = await request(name, String(forMs));
      if (isOurs) taken.add(name);
      else taken.delete(name);
      return isOurs;
    },
    /** Releases every lease, so that other processes need not wait. */
    async close(): Promise<void> {
      // A lease that cannot be released now expires.
      await Promise.allSettled([...taken].map((name) => request(name, "")));
    },
  };
}

/** Calls to the service, counted over all processes. */
export function createServiceCalls(keys: Keys, link: RedisLink, commit: Commit) {
  return {
    /** Days from `from` on, earliest first. */
    async serviceCalls(account: string, from: number): Promise<DayCalls[]> {
      const found = await link.run((redis) => redis.hgetall(keys.of(`calls:${account}`)));
      const days = new Map<number, { polls: number; others: number }>();
      for (const [field, count] of Object.entries(found)) {
        const [day, what] = field.split(":");
        if (Number(day) < from) continue;
        const calls = days.get(Number(day)) ?? { polls: 0, others: 0 };
        calls[what === "polls" ? "polls" : "others"] = Number(count);
        days.set(Number(day), calls);
      }
      return [...days].toSorted(([a], [b]) => a - b).map(([day, calls]) => ({ day, ...calls }));
    },
    async addServiceCalls(counts: readonly CallCount[]): Promise<void> {
      if (counts.length === 0) return;
      const operations: Operation[] = [];
      for (const { account, day, polls, others } of counts) {
        const key = keys.of(`calls:${account}`);
        operations.push(["call", "HINCRBY", key, `${day}:polls`, String(polls)], ["call", "HINCRBY", key, `${day}:others`, String(others)]);
        const old = (await link.run((redis) => redis.hkeys(key))).filter((field) => Number(field.split(":")[0]) < day - callsKeptMs);
        if (old.length > 0) operations.push(["call", "HDEL", key, ...old]);
      }
      const list: Argument[] = ["T", "0"];
      pushOperations(list, operations);
      await commit.run({ list });
    },
    /** Not needed: processes share the caps (shared-limits.ts), which still count the calls of a process that died. */
    recentCalls: (_account: string, _from: number): readonly RecentCall[] => [],
    noteCall: async (_account: string, _call: RecentCall): Promise<void> => {},
  };
}

const byTimer: Clock["after"] = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};

/** Poll interval for events of other processes; one GET each. */
const lookEveryMs = 200;

/**
 * Wakes listeners: at once for events of this process, and by polling the last seq for events of others. It polls only
 * while there are listeners, and continues while Redis is unavailable.
 */
export function createArrivals(last: () => Promise<number>, after: Clock["after"] = byTimer) {
  const waiting = new Set<() => void>();
  let known = 0;
  let cancel = (): void => {};
  let isLooking = false;
  let isNotified = true;

  /** Notifies once per turn of the event loop. */
  function notifySoon(): void {
    if (!isNotified || waiting.size === 0) return;
    isNotified = false;
    setImmediate(() => {
      isNotified = true;
      for (const wake of [...waiting]) wake();
    });
  }

  async function look(): Promise<void> {
    try {
      const found = await last();
      const isNew = found !== known;
      known = found;
      if (isNew) notifySoon();
    } catch {
      // The connection reports that Redis is unavailable.
    } finally {
      isLooking = waiting.size > 0;
      if (isLooking) cancel = after(lookEveryMs, () => void look());
    }
  }

  return {
    /** This process stored events, the last one with this seq. */
    stored(seq: number): void {
      // Older seqs were notified already.
      if (seq <= known) return;
      known = seq;
      notifySoon();
    },
    onStored(wake: () => void): () => void {
      waiting.add(wake);
      if (!isLooking) {
        isLooking = true;
        void look();
      }
      return () => void waiting.delete(wake);
    },
    close(): void {
      waiting.clear();
      cancel();
    },
  };
}
