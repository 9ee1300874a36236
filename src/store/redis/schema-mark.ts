import { randomUUID } from "node:crypto";
import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

/**
 * How this version stores things (keys.ts). A change that an older version would misread raises it: 2 knows events that
 * are only accepted.
 */
export const schemaVersion = 2;

const mark = readScript("schema");

/**
 * Marks the prefix as a relay's, the first time, and gives the name of what stands there: another one means that Redis has
 * lost what it had. What an older version wrote is this one's from then on, and the older one refuses it. Throws
 * `StoreRefused` when a newer version wrote there, or something that is no relay.
 */
export async function checkSchema(redis: Redis, prefix: string): Promise<string> {
  const key = keysOf(prefix).of("schema");
  // Read first: a Redis that takes no writes (full, a replica) refuses the script whole, and what it has can be read.
  const found = await redis.get(key);
  const isMarked = found?.startsWith(`${schemaVersion} `) === true;
  const marked = isMarked ? found : ((await mark.run(redis, key, [String(schemaVersion), randomUUID()])) as string);
  return nameIn(marked, prefix);
}

/** The same for one who only reads: marks nothing, and raises nothing. What an older version wrote can be read. */
export async function checkReadable(redis: Redis, prefix: string): Promise<void> {
  const marked = await redis.get(keysOf(prefix).of("schema"));
  if (marked !== null) nameIn(marked, prefix);
}

function nameIn(marked: string, prefix: string): string {
  const [version = "", name = ""] = marked.split(" ", 2);
  const schema = Number(version);
  if (!Number.isInteger(schema) || schema < 1) throw new StoreRefused(`prefix ${prefix}: what stands there is not a relay's`);
  if (schema > schemaVersion) {
    throw new StoreRefused(
      `prefix ${prefix}: written by a newer version of wamid-relay (schema ${schema}; this one knows ${schemaVersion}); update this process`,
    );
  }
  return name;
}
