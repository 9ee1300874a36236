import { randomUUID } from "node:crypto";
import type { AlarmInForce, NotedAlarmChange, Sighting, SightingsRead } from "../port.ts";
import type { CallCount, DayCalls, RecentCall } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, type Operation, pushOperations } from "./commit.ts";
import type { Keys } from "./keys.ts";
import { rowJson } from "./rows.ts";
import { type Argument, readScript } from "./script.ts";
import type { Transact } from "./transact.ts";

const noteAlarmScript = readScript("note-alarm");

/**
 * Alarms in force, in a hash: key `alarms`, a field for each. Whoever watches next goes on with them; and of two that
 * watch at once, because one was held up for longer than its duty lasts, one tells of a change. Beside them in `untold`
 * the changes that nobody has told of yet, each with who is to: whoever goes on after that one tells of them.
 */
export function createSharedAlarms(keys: Keys, link: RedisLink) {
  const key = keys.of("alarms");
  const untold = keys.of("untold");
  const teller = randomUUID();

  return {
    async alarmsInForce(): Promise<readonly AlarmInForce[]> {
      const found = await link.run((redis) => redis.hvals(key));
      return found.map((json) => JSON.parse(json) as AlarmInForce);
    },
    async noteAlarm(change: NotedAlarmChange): Promise<boolean> {
      const { state, alarm } = change;
      const name = `${alarm.alarm} ${alarm.account}`;
      const args = [keys.base, name, state, JSON.stringify(alarm), JSON.stringify(change), teller];
      return (await link.run((redis) => noteAlarmScript.run(redis, key, args))) === 1;
    },
    async untoldAlarms(): Promise<readonly NotedAlarmChange[]> {
      const found = await link.run((redis) => redis.hkeys(untold));
      return found.map((json) => JSON.parse(json) as NotedAlarmChange);
    },
    async alarmTold(change: NotedAlarmChange): Promise<void> {
      await link.run((redis) => redis.hdel(untold, JSON.stringify(change)));
    },
  };
}

/** As long as the longest `silence.after`. */
const sightingsKeptMs = 86_400_000;
/** Of one reading; a process notes one for each account four times a minute. */
const mostRead = 100_000;

/** What processes saw of webhooks, in a stream that the one on duty reads: key `sightings`, an entry for each sighting. */
export function createSharedSightings(keys: Keys, link: RedisLink) {
  const key = keys.of("sightings");

  return {
    async noteSightings(sightings: readonly Sighting[]): Promise<void> {
      for (const sighting of sightings) {
        const oldest = sighting.at - sightingsKeptMs;
        await link.run((redis) => redis.xadd(key, "MINID", "~", String(oldest), "*", "s", JSON.stringify(sighting)));
      }
    },
    async sightings(place: string | null, from: number): Promise<SightingsRead> {
      const start = place === null ? String(Math.max(0, Math.floor(from))) : `(${place}`;
      const entries = await link.run((redis) => redis.xrange(key, start, "+", "COUNT", mostRead));
      return {
        sightings: entries.map(([, fields]) => JSON.parse(fields[1] as string) as Sighting),
        place: entries.at(-1)?.[0] ?? place,
      };
    },
  };
}

/** Most names kept; past them the one that has not moved for longest is forgotten. */
const mostCursors = 1_000;

/** How far each of those who listen under a name has come. */
export function createCursors(keys: Keys, link: RedisLink, transact: Transact) {
  const names = keys.of("cursors");
  const rowKey = (name: string): string => keys.of(`cursor:${name}`);

  return {
    /** Null when nobody has listened under this name. */
    async find(name: string): Promise<number | null> {
      const found = await link.run((redis) => redis.get(rowKey(name)));
      return found === null ? null : Number(rowJson(found));
    },
    /** Never goes back: gives where it stands now. */
    move: (name: string, seq: number, at: number): Promise<number> =>
      transact(async (tx) => {
        const stored = await tx.read(rowKey(name));
        if (stored === null && (await link.run((redis) => redis.zcard(names))) >= mostCursors) {
          const [oldest] = await link.run((redis) => redis.zrange(names, "0", "0"));
          if (oldest !== undefined) {
            tx.remove(rowKey(oldest));
            tx.call("ZREM", names, oldest);
          }
        }
        const moved = Math.max(seq, Number(stored ?? seq));
        tx.put(rowKey(name), String(moved));
        tx.call("ZADD", names, String(at), name);
        return moved;
      }),
  };
}

interface Duties {
  /** Whether this process has the duty for the next `forMs`; nobody else does meanwhile. Asking again renews it. */
  take(name: string, forMs: number): Promise<boolean>;
  /** Lets go of all that was taken, so that others need not wait. */
  close(): Promise<void>;
}

const dutyScript = readScript("duty");

/**
 * What one process of many does for all. Redis counts the time, so that clocks need not agree. A process that was held up
 * for longer than it asked for can find that another does the same: duties save work, and no promise rests on them.
 */
export function createDuties(base: string, link: RedisLink): Duties {
  const holder = randomUUID();
  const taken = new Set<string>();

  async function ask(name: string, ms: string): Promise<boolean> {
    return (await link.run((redis) => dutyScript.run(redis, `${base}duty:${name}`, [holder, ms]))) === 1;
  }

  return {
    async take(name, forMs) {
      const isOurs = await ask(name, String(forMs));
      if (isOurs) taken.add(name);
      else taken.delete(name);
      return isOurs;
    },
    async close() {
      // One that cannot be let go now ends by itself.
      await Promise.allSettled([...taken].map((name) => ask(name, "")));
    },
  };
}

/** As long as any month with the days around it. */
const callsKeptMs = 62 * 86_400_000;

interface ServiceCallsParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly commit: Commit;
}

/** How often the service was called, by all processes together. */
export function createServiceCalls({ keys, link, commit }: ServiceCallsParts) {
  return {
    /** The days from `from` on, earliest first. */
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
    /** Processes share the caps themselves (shared-slots.ts): a call of one that died is still counted there. */
    recentCalls: (_account: string, _from: number): readonly RecentCall[] => [],
    noteCall: async (_account: string, _call: RecentCall): Promise<void> => {},
  };
}
