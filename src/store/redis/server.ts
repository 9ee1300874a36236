import type { Clock } from "../../model/clock.ts";
import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { readScript } from "./script.ts";

/** The first version with script flags (`#!lua`): a script is refused whole when memory is full or the server a replica. */
export const leastVersion = "7.0";

/** The fields of an INFO answer by name. */
export function infoFields(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\r\n").filter((line) => line.includes(":") && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

export function isOldVersion(version: string): boolean {
  return Number.parseInt(version, 10) < Number.parseInt(leastVersion, 10);
}

/** Throws `StoreRefused` when the server is too old. Without permission to run INFO, any version is accepted. */
export async function checkVersion(client: Redis): Promise<void> {
  const text = await client.info("server").catch((error: Error) => {
    if (error.message.startsWith("NOPERM")) return "";
    throw error;
  });
  const version = infoFields(text).get("redis_version");
  if (version !== undefined && isOldVersion(version)) {
    throw new StoreRefused(`is version ${version}, and the relay needs ${leastVersion} or newer`);
  }
}

/**
 * Redis' time in this process, for everything that processes compare: the clocks of their hosts differ and may be set.
 * Otherwise a process an hour ahead would end events that another has just parked.
 */
export interface RedisClock extends Clock {
  /** Reads the server's time. Call it on every connection and at intervals, because clocks drift. */
  follow(redis: Redis, key: string): Promise<void>;
}

const timeScript = readScript("time");

/** Unix ms, with fractions, of the server that holds `key`: the nodes of a Cluster differ. */
export async function readTime(redis: Redis, key: string): Promise<number> {
  const [seconds, micros] = (await timeScript.run(redis, key, [])) as [string, string];
  return Number(seconds) * 1000 + Number(micros) / 1000;
}

/**
 * Uses the time of `machine` until the first answer of Redis. From then on it advances with `steady` (ms, monotonic), also
 * while Redis is unavailable and when the machine's clock is set.
 */
export function createRedisClock(machine: Clock, steady: () => number = () => performance.now()): RedisClock {
  /** Redis' time when `steady` was 0; null: not known yet. */
  let began: number | null = null;
  return {
    now: () => (began === null ? machine.now() : Math.floor(steady() + began)),
    after: machine.after,
    async follow(redis, key) {
      const sentAt = steady();
      const measured = await readTime(redis, key);
      // The server read its clock at some moment between request and answer. Keeping the known offset within these bounds
      // lets the fastest answers count, and a slow one does not move the time back and forth.
      const least = measured - steady();
      const most = measured - sentAt;
      began = Math.min(most, Math.max(least, began ?? (least + most) / 2));
    },
  };
}

/** A process that is connected to the Redis of a relay. */
export interface Presence {
  /** Unique per process. */
  readonly id: string;
  readonly role: "receive" | "work" | "both" | "command";
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  /** Unix ms it was started. */
  readonly since: number;
}

/** A process that has not written for this long is dead or cut off; it writes every two seconds. */
const silentAfterMs = 10_000;
const forgottenAfterMs = 3_600_000;

/** `{prefix}:processes`: a zset of presences by the unix ms of their last write. */
const processesKey = (prefix: string): string => `{${prefix}}:processes`;

export async function writePresence(client: Redis, prefix: string, now: number, presence: Presence): Promise<void> {
  await client.zadd(processesKey(prefix), now, JSON.stringify(presence));
}

export async function removePresence(client: Redis, prefix: string, now: number, presence: Presence): Promise<void> {
  await client.zrem(processesKey(prefix), JSON.stringify(presence));
  await client.zremrangebyscore(processesKey(prefix), 0, now - forgottenAfterMs);
}

/** Connected processes, newest first, by the clock of Redis. */
export async function readPresences(client: Redis, prefix: string): Promise<Presence[]> {
  const now = await readTime(client, processesKey(prefix));
  const lines = await client.zrangebyscore(processesKey(prefix), now - silentAfterMs, "+inf");
  return lines.map((line) => JSON.parse(line) as Presence).sort((a, b) => b.since - a.since);
}
