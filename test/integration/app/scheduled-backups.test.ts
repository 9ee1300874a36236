// Slow: it waits for several backups of a schedule, which has steps of a second.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";

const everySecond = "* * * * * *";

async function metricOf(relay: RelayHere, name: string): Promise<number> {
  const text = String((await relay.ask("/metrics")).body);
  return Number(new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1]);
}

test("a running relay makes backups as scheduled, keeps as many as set, and applies a reload", {
  tags: ["slow"],
}, async () => {
  const relay = await startRelayHere();
  const folder = join(relay.folder, "backups");
  const set = async (schedule: string, keep: number) => {
    relay.writeSettings({ backup: { schedule, folder, keep } });
    await relay.reload();
  };
  const made = () => relay.log().filter(({ msg }) => msg === "backup made");
  const backups = () => readdirSync(folder).filter((name) => name.endsWith(".db"));
  expect((await postEvent(relay.webhookUrl, createMessages("backup").event())).word).toBe(
    "accepted",
  );

  await set(everySecond, 2);
  await until("three backups were made", () => made().length >= 3);
  // A new backup has its name before the oldest is removed.
  await until("two are kept", () => backups().length === 2);
  expect(backups().every((name) => /^relay-\d{8}T\d{6}Z\.db$/.test(name))).toBe(true);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(made()[0]).toMatchObject({ events: 1, file: expect.stringContaining(folder) });

  await set(everySecond, 1);
  await until("one is kept", () => backups().length === 1);
  expect(await metricOf(relay, "relay_backup_failures_total")).toBe(0);
  expect(await metricOf(relay, "relay_backup_last_success_timestamp_seconds")).toBeGreaterThan(
    1_700_000_000,
  );

  await set("off", 1);
  await relay.stop();
  const [last] = backups();
  expect(rowsOf(join(folder, String(last)), "SELECT count(*) AS n FROM events")).toEqual([
    { n: 1 },
  ]);
  expect(readdirSync(folder)).toEqual([last]);
});
