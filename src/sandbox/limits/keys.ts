import type { KeyRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";

/** Finds the valid key with a text, of any account; undefined for one that is unknown or revoked. */
export type FindKey = (text: string) => KeyRecord | undefined;

/** Tables are searched per account; ids found once are remembered, so that a call costs the same with many accounts. */
export function createFindKey({ accounts, keys }: Pick<World, "accounts" | "keys">): FindKey {
  const ids = new Map<string, string>();
  return (text) => {
    const known = keys.get(ids.get(text) ?? "");
    const found = known?.key === text ? known : search(text);
    if (found === undefined || found.revokedAt !== null) {
      ids.delete(text);
      return undefined;
    }
    ids.set(text, found.id);
    return found;
  };

  function search(text: string): KeyRecord | undefined {
    for (const { id } of accounts.all()) {
      const key = keys.find(id, text);
      if (key !== undefined) return key;
    }
    return undefined;
  }
}
