import { z } from "zod";
import type { Clock } from "../../event/clock.ts";
import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { readScript } from "./script.ts";

/** Scripts that name their flags (`#!lua`), so that one is refused whole when memory is full or the server a replica. */
export const leastVersion = "7.0";

/** The fields of an INFO answer by name. */
export function infoFields(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\r\n").filter((line) => line.includes(":") && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

export function isOldVersion(version: string): boolean {
  return Number.parseInt(version, 10) < Number.parseInt(leastVersion, 10);
}

/** Throws `StoreRefused` for a server that is too old. One whose user may not ask is taken as it is. */
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
 * Redis' time, on this process: for all that processes compare, because the clocks of their hosts differ and may be set.
 * With a clock each, one that is an hour ahead ends what another has just parked, and calls an exchange dead that another
 * is at.
 */
export interface RedisClock extends Clock {
  /** Asks what time it is. To be called on every connection, and again and again: no two clocks go at the same pace. */
  follow(redis: Redis, key: string): Promise<void>;
}

const timeScript = readScript("time");

/** Unix ms, with fractions, as the server has it that keeps `key`: of a Cluster not every node has the same. */
export async function readTime(redis: Redis, key: string): Promise<number> {
  const [seconds, micros] = (await timeScript.run(redis, key, [])) as [string, string];
  return Number(seconds) * 1000 + Number(micros) / 1000;
}

/**
 * Until Redis was asked it is `machine`'s time; then that goes on with `steady` (ms, never set), so that nothing is lost
 * while Redis is away, and setting the machine's clock changes nothing.
 */
export function createRedisClock(machine: Clock, steady: () => number = () => performance.now()): RedisClock {
  /** Redis' time when `steady` was 0; null: not known yet. */
  let began: number | null = null;
  return {
    now: () => (began === null ? machine.now() : Math.floor(steady() + began)),
    after: machine.after,
    async follow(redis, key) {
      const sentAt = steady();
      const told = await readTime(redis, key);
      // It was that time at some moment on the way: what was known before stays, as far as that leaves it possible. So it
      // is the fastest answers that count, and a slow one does not make time go to and fro.
      const least = told - steady();
      const most = told - sentAt;
      began = Math.min(most, Math.max(least, began ?? (least + most) / 2));
    },
  };
}

const presenceSchema = z.object({
  /** Of the process, not of the host: unlike all others. */
  id: z.string(),
  role: z.enum(["receive", "work", "both", "command"]),
  host: z.string(),
  pid: z.number(),
  /** Unix ms it was started. */
  since: z.number(),
});

/** A process that is connected to the Redis of a relay. */
export type Presence = z.infer<typeof presenceSchema>;

/** A process that has not written for this long is gone, or cut off; it writes every two seconds. */
const goneAfterMs = 10_000;
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

/** Who is connected, by the clock of Redis; newest first. */
export async function readPresences(client: Redis, prefix: string): Promise<Presence[]> {
  const now = await readTime(client, processesKey(prefix));
  const lines = await client.zrangebyscore(processesKey(prefix), now - goneAfterMs, "+inf");
  const found = lines.flatMap((line) => {
    const parsed = presenceSchema.safeParse(parsedLine(line));
    return parsed.success ? [parsed.data] : [];
  });
  return found.sort((a, b) => b.since - a.since);
}

function parsedLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}
