import { expect, test } from "vitest";
import type { AlarmChange } from "../../../src/model/alarm.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import { createAlarms } from "../../../src/store/redis/notes.ts";

import { redisOfFile } from "../../contract/redis-of-file.ts";

const { client, link } = redisOfFile();
const change = (state: "began" | "ended", since: number, alarm: "silence" | "key" = "silence"): AlarmChange => ({
  state,
  alarm: { alarm, account: "main", route: null, since, text: "none", causes: ["url"] },
});

test("one of several processes reports a change of an alarm, also when it retries after a lost answer", async () => {
  const [one, other] = [createAlarms(keysOf("relay"), link), createAlarms(keysOf("relay"), link)];
  expect(await one.alarmsInForce()).toEqual([]);
  expect(await one.noteAlarm(change("began", 1))).toBe(true);
  expect(await other.noteAlarm(change("began", 2))).toBe(false);
  expect(await other.noteAlarm(change("began", 1))).toBe(false);
  expect(await one.noteAlarm(change("began", 1))).toBe(true);
  expect(await other.noteAlarm(change("began", 3, "key"))).toBe(true);
  expect((await other.alarmsInForce()).map(({ alarm: name, since }) => [name, since]).toSorted()).toEqual([
    ["key", 3],
    ["silence", 1],
  ]);
  const ends = [await other.noteAlarm(change("ended", 1)), await one.noteAlarm(change("ended", 1))];
  expect(ends).toEqual([true, false]);
  expect(await other.noteAlarm(change("ended", 1))).toBe(true);
  expect(await one.alarmsInForce()).toMatchObject([{ alarm: "key", since: 3 }]);
});

test("lists a change for all processes until it is reported, and then deletes it", async () => {
  const [one, other] = [createAlarms(keysOf("told"), link), createAlarms(keysOf("told"), link)];
  const changes = [change("began", 1), change("ended", 1), change("began", 2)];
  for (const each of changes) expect(await one.noteAlarm(each)).toBe(true);
  const untold = async () => (await other.untoldAlarms()).toSorted((a, b) => a.alarm.since - b.alarm.since);
  expect(await untold()).toEqual(expect.arrayContaining(changes));
  await other.alarmTold(change("began", 1));
  expect(await untold()).toEqual([change("ended", 1), change("began", 2)]);
  for (const each of changes) await one.alarmTold(each);
  expect(await untold()).toEqual([]);
  expect(await one.noteAlarm(change("began", 2))).toBe(false);
  expect(await client().keys("{told}:*")).toEqual(["{told}:alarms"]);
  await other.noteAlarm(change("ended", 2));
  await other.alarmTold(change("ended", 2));
  expect(await client().keys("{told}:*")).toEqual([]);
});
