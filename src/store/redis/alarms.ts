import { randomUUID } from "node:crypto";
import type { AlarmInForce, NotedAlarmChange } from "../port.ts";
import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";
import { readScript } from "./script.ts";

const script = readScript("note-alarm");

/**
 * Alarms in force, in a hash: key `alarms`, a field for each. Whoever watches next goes on with them; and of two that
 * watch at once, because one was held up for longer than its duty lasts, one tells of a change. Beside them in `untold`
 * the changes that nobody has told of yet, each with who is to: whoever goes on after that one tells of them.
 */
export function createSharedAlarms(keys: Keys, link: RedisLink) {
  const key = keys.of("alarms");
  const untold = keys.of("untold");
  const teller = randomUUID();

  return {
    async alarmsInForce(): Promise<readonly AlarmInForce[]> {
      const found = await link.run((redis) => redis.hvals(key));
      return found.map((json) => JSON.parse(json) as AlarmInForce);
    },
    async noteAlarm(change: NotedAlarmChange): Promise<boolean> {
      const { state, alarm } = change;
      const name = `${alarm.alarm} ${alarm.account}`;
      const args = [keys.base, name, state, JSON.stringify(alarm), JSON.stringify(change), teller];
      return (await link.run((redis) => script.run(redis, key, args))) === 1;
    },
    async untoldAlarms(): Promise<readonly NotedAlarmChange[]> {
      const found = await link.run((redis) => redis.hkeys(untold));
      return found.map((json) => JSON.parse(json) as NotedAlarmChange);
    },
    async alarmTold(change: NotedAlarmChange): Promise<void> {
      await link.run((redis) => redis.hdel(untold, JSON.stringify(change)));
    },
  };
}
