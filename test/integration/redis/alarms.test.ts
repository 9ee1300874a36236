import { expect, test } from "vitest";
import type { AlarmInForce } from "../../../src/store/alarms.ts";
import { createSharedAlarms } from "../../../src/store/redis/alarms.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import { redisOfFile } from "../../contract/redis-of-file.ts";

const { client, link } = redisOfFile();
const alarm = (since: number): AlarmInForce => ({ alarm: "silence", account: "main", since, text: "none", causes: ["url"] });

test("of several that find an alarm, or its end, one tells of it; who asks again after a lost answer is the same one", async () => {
  const [one, other] = [createSharedAlarms(keysOf("relay"), link), createSharedAlarms(keysOf("relay"), link)];
  expect(await one.alarmsInForce()).toEqual([]);
  expect(await one.noteAlarm("began", alarm(1))).toBe(true);
  expect(await other.noteAlarm("began", alarm(2))).toBe(false);
  expect(await one.noteAlarm("began", alarm(1))).toBe(true);
  expect(await other.noteAlarm("began", { ...alarm(3), alarm: "key" })).toBe(true);
  expect((await other.alarmsInForce()).map(({ alarm: name, since }) => [name, since]).toSorted()).toEqual([
    ["key", 3],
    ["silence", 1],
  ]);
  const ends = [await other.noteAlarm("ended", alarm(1)), await one.noteAlarm("ended", alarm(1))];
  expect(ends).toEqual([true, false]);
  expect(await one.alarmsInForce()).toMatchObject([{ alarm: "key", since: 3 }]);
  expect(await client().keys("*")).toEqual(["{relay}:alarms"]);
});
