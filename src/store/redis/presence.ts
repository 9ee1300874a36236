import { z } from "zod";
import type { Redis } from "./client.ts";
import { readTime } from "./redis-clock.ts";

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
const keyOf = (prefix: string): string => `{${prefix}}:processes`;

export async function writePresence(client: Redis, prefix: string, now: number, presence: Presence): Promise<void> {
  await client.zadd(keyOf(prefix), now, JSON.stringify(presence));
}

export async function removePresence(client: Redis, prefix: string, now: number, presence: Presence): Promise<void> {
  await client.zrem(keyOf(prefix), JSON.stringify(presence));
  await client.zremrangebyscore(keyOf(prefix), 0, now - forgottenAfterMs);
}

/** Who is connected, by the clock of Redis; newest first. */
export async function readPresences(client: Redis, prefix: string): Promise<Presence[]> {
  const now = await readTime(client, keyOf(prefix));
  const lines = await client.zrangebyscore(keyOf(prefix), now - goneAfterMs, "+inf");
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
