import type { Sighting, SightingsRead } from "../port.ts";
import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";

/** As long as the longest `silence.after`. */
const keptMs = 86_400_000;
/** Of one reading; a process notes one for each account four times a minute. */
const mostRead = 100_000;

/** What processes saw of webhooks, in a stream that the one on duty reads: key `sightings`, an entry for each sighting. */
export function createSharedSightings(keys: Keys, link: RedisLink) {
  const key = keys.of("sightings");

  return {
    async noteSightings(sightings: readonly Sighting[]): Promise<void> {
      for (const sighting of sightings) {
        const oldest = sighting.at - keptMs;
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
