import { StoreRefused } from "../store-error.ts";
import type { Redis } from "./client.ts";
import { keysOf } from "./keys.ts";

/** How this version stores things (keys.ts). A change that an older version would misread raises it. */
export const schemaVersion = 1;

/**
 * Marks the prefix as a relay's, the first time. Throws `StoreRefused` when a newer version wrote there, or something that
 * is no relay.
 */
export async function checkSchema(redis: Redis, prefix: string): Promise<void> {
  const key = keysOf(prefix).of("schema");
  const marked = await redis.get(key);
  if (marked === null) {
    await redis.set(key, String(schemaVersion), "NX");
    return;
  }
  const found = Number(marked);
  if (!Number.isInteger(found) || found < 1) throw new StoreRefused(`prefix ${prefix}: what stands there is not a relay's`);
  if (found > schemaVersion) {
    throw new StoreRefused(
      `prefix ${prefix}: written by a newer version of wamid-relay (schema ${found}; this one knows ${schemaVersion}); update this process`,
    );
  }
}
