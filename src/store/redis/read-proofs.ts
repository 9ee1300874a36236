import type { Proof } from "../views.ts";
import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";

type Sums = { -readonly [Name in "events" | "duplicates" | "firstAt" | "lastAt"]: number };

const words = new Map<string, keyof Sums>([
  ["events", "events"],
  ["duplicates", "duplicates"],
  ["first", "firstAt"],
  ["last", "lastAt"],
]);

/** What each secret of each source has proved, by source and secret. */
export function createReadProofs(keys: Keys, link: RedisLink) {
  return async (): Promise<Proof[]> => {
    const found = await link.run((redis) => redis.hgetall(`${keys.base}proofs`));
    const sums = new Map<string, { source: string; secret: string } & Sums>();
    for (const [field, value] of Object.entries(found)) {
      const end = field.lastIndexOf(":");
      const proof = field.slice(0, end);
      const start = proof.lastIndexOf(":");
      const word = words.get(field.slice(end + 1));
      if (word === undefined) continue;
      const sum = sums.get(proof) ?? {
        source: proof.slice(0, start),
        secret: proof.slice(start + 1),
        events: 0,
        duplicates: 0,
        firstAt: 0,
        lastAt: 0,
      };
      sum[word] = Number(value);
      sums.set(proof, sum);
    }
    return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
  };
}
