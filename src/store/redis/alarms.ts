import type { AlarmInForce } from "../alarms.ts";
import type { Keys } from "./keys.ts";
import type { RedisLink } from "./link.ts";

/**
 * Alarms in force, in a hash: key `alarms`, a field for each. Whoever watches next goes on with them; and of two that
 * watch at once, because one was held up for longer than its duty lasts, one tells of a change.
 */
export function createSharedAlarms(keys: Keys, link: RedisLink) {
  const key = keys.of("alarms");

  return {
    async alarmsInForce(): Promise<readonly AlarmInForce[]> {
      const found = await link.run((redis) => redis.hvals(key));
      return found.map((json) => JSON.parse(json) as AlarmInForce);
    },
    async noteAlarm(state: "began" | "ended", alarm: AlarmInForce): Promise<boolean> {
      const field = `${alarm.alarm} ${alarm.account}`;
      if (state === "ended") return (await link.run((redis) => redis.hdel(key, field))) === 1;
      const json = JSON.stringify(alarm);
      await link.run((redis) => redis.hsetnx(key, field, json));
      // Not by the answer to HSETNX: it may be the second try of one whose answer was lost.
      return (await link.run((redis) => redis.hget(key, field))) === json;
    },
  };
}
