import { expect, test } from "vitest";
import type { AlarmChange } from "../../../src/model/alarm.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import { createSharedAlarms } from "../../../src/store/redis/notes.ts";
import { redisOfFile } from "../../contract/redis-of-file.ts";

const { client, link } = redisOfFile();
const change = (state: "began" | "ended", since: number, alarm: "silence" | "key" = "silence"): AlarmChange => ({
  state,
  alarm: { alarm, account: "main", since, text: "none", causes: ["url"] },
});

test("of several that find an alarm, or its end, one tells of it; who asks again after a lost answer is the same one", async () => {
  const [one, other] = [createSharedAlarms(keysOf("relay"), link), createSharedAlarms(keysOf("relay"), link)];
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

test("a change is among those not told of until it is, for whoever asks; then nothing of it is left", async () => {
  const [one, other] = [createSharedAlarms(keysOf("told"), link), createSharedAlarms(keysOf("told"), link)];
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
