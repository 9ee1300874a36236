import { randomUUID } from "node:crypto";
import { StoreRefused } from "../store-error.ts";
import type { Redis } from "./client.ts";
import { keysOf } from "./keys.ts";

/** How this version stores things (keys.ts). A change that an older version would misread raises it. */
export const schemaVersion = 1;

/**
 * Marks the prefix as a relay's, the first time, and gives the name of what stands there: another one means that Redis has
 * lost what it had. Throws `StoreRefused` when a newer version wrote there, or something that is no relay.
 */
export async function checkSchema(redis: Redis, prefix: string): Promise<string> {
  const key = keysOf(prefix).of("schema");
  await redis.set(key, `${schemaVersion} ${randomUUID()}`, "NX");
  const marked = (await redis.get(key)) ?? "";
  const found = Number(marked.split(" ", 1)[0]);
  if (!Number.isInteger(found) || found < 1) throw new StoreRefused(`prefix ${prefix}: what stands there is not a relay's`);
  if (found > schemaVersion) {
    throw new StoreRefused(
      `prefix ${prefix}: written by a newer version of wamid-relay (schema ${found}; this one knows ${schemaVersion}); update this process`,
    );
  }
  return marked;
}
