import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { type Backups, type BackupsParts, startBackups } from "../../../src/app/backups.ts";
import type { Task } from "../../../src/app/supervise.ts";
import { createMetrics } from "../../../src/observe/metrics.ts";
import { openSqliteSubject } from "../../contract/sqlite-subject.ts";
import { anEvent, rulesFor } from "../../contract/store-events.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const [minute, day] = [60_000, 86_400_000];
const midnight = Date.parse("2026-11-23T00:00:00Z");

async function opened(backup: Partial<{ schedule: string; folder: string; keep: number }> = {}) {
  const subject = await openSqliteSubject(rulesFor([{ name: "all" }]));
  const parent = tempFolder();
  onTestFinished(() => subject.end());
  await subject.store.accept(anEvent({ wamid: "w" }));
  const folder = join(parent, "made", "here");
  const settings = { schedule: "0 3 * * *", folder, keep: 2, ...backup };
  const log: Record<string, unknown>[] = [];
  const metrics = createMetrics({ version: "1", node: "1", storage: "sqlite" }).backup;
  let now = midnight;
  let task: Task | undefined;
  let backups: Backups | undefined;
  const begin = () => {
    backups = startBackups({
      settings: () => ({ backup: settings }) as unknown as ReturnType<BackupsParts["settings"]>,
      path: subject.path,
      store: subject.store,
      clock: { now: () => now, after: () => () => {} },
      supervise: (given) => {
        task = given;
        return { wake() {}, close: async () => {} };
      },
      log: {
        info: (line: object, text: string) => void log.push({ ...line, text }),
        error: (line: object, text: string) => void log.push({ ...line, text, isError: true }),
      } as unknown as BackupsParts["log"],
      metrics: { backup: metrics },
    });
  };
  begin();
  const run = async (signal = new AbortController().signal) => (task as Task).run(signal);
  return {
    subject,
    folder,
    settings,
    log,
    begin,
    run,
    setTime: (at: number) => {
      now = at;
    },
    /** Steps as the supervisor takes them, until then. */
    async passUntil(end: number) {
      for (;;) {
        const waitMs = (await run()) ?? 0;
        expect(waitMs).toBeGreaterThan(0);
        if (now + waitMs > end) break;
        now += waitMs;
      }
      now = end;
    },
    failure: () => backups?.failure() ?? null,
    names: () => (existsSync(folder) ? readdirSync(folder).toSorted() : []),
    value: async (name: keyof typeof metrics) => (await metrics[name].get()).values[0]?.value ?? 0,
  };
}

test("makes a backup at each time of the schedule, and keeps the newest", async () => {
  const { passUntil, names, folder, log, value } = await opened();
  await passUntil(midnight + 3 * 60 * minute - 1);
  expect(names()).toEqual([]);
  await passUntil(midnight + 4 * 60 * minute);
  expect(names()).toEqual(["relay-20261123T030000Z.db"]);
  expect(log).toMatchObject([
    { text: "backup made", file: join(folder, names()[0] as string), events: 1, removed: 0 },
  ]);
  // By the clock of the machine: this backup was really made now.
  expect(await value("success")).toBeGreaterThan(1_700_000_000);
  expect(await value("bytes")).toBeGreaterThan(4096);
  await passUntil(midnight + 3 * day);
  expect(names()).toEqual(["relay-20261124T030000Z.db", "relay-20261125T030000Z.db"]);
  expect(rowsOf(join(folder, names()[1] as string), "SELECT count(*) AS n FROM events")).toEqual([
    { n: 1 },
  ]);
});

test("keeps a new backup beside those of a clock that was ahead", async () => {
  const { passUntil, setTime, names } = await opened();
  await passUntil(midnight + 3 * day);
  setTime(midnight - day);
  await passUntil(midnight - day + 4 * 60 * minute);
  expect(names()).toEqual(["relay-20261122T030000Z.db", "relay-20261125T030000Z.db"]);
});

test("keeps the good backups when the sums of a new one do not match", async () => {
  const { passUntil, names, subject, log } = await opened({ keep: 1 });
  await passUntil(midnight + 4 * 60 * minute);
  const good = names();
  const db = new Database(subject.path);
  db.exec("UPDATE counters SET n = n + 5 WHERE series = 'secret'");
  db.close();
  await passUntil(midnight + 2 * day + 4 * 60 * minute);
  expect(log.at(-1)).toMatchObject({ isError: true, removed: 0 });
  expect(names()).toHaveLength(3);
  expect(names()).toEqual(expect.arrayContaining(good));
});

test("removes no file with another name", async () => {
  const { passUntil, names, folder } = await opened({ keep: 1 });
  await passUntil(midnight + 4 * 60 * minute);
  const others = [
    "other-20200101T000000Z.db",
    "relay-20200101T000000Z.db.gz",
    "relay-2020.db",
    "relay.db",
    "xrelay-20200101T000000Z.db",
  ];
  for (const name of others) writeFileSync(join(folder, name), "theirs");
  writeFileSync(join(folder, "relay-20200101T000000Z.db"), "an old backup");
  await passUntil(midnight + day + 4 * 60 * minute);
  expect(names()).toEqual([...others, "relay-20261124T030000Z.db"].toSorted());
});

test("removes what a killed process left, and not what another one writes", async () => {
  const { passUntil, names, folder } = await opened();
  await passUntil(midnight + 4 * 60 * minute);
  const [old, fresh, other] = [
    "relay-20261122T030000Z.db.0a1b2c3d.partial",
    "relay-20261122T030000Z.db.00000000.partial",
    "x.00000000.partial",
  ];
  for (const name of [old, fresh, other] as string[]) writeFileSync(join(folder, name), "");
  const lastWritten = (name: string, at: number) =>
    utimesSync(join(folder, name), new Date(at), new Date(at));
  lastWritten(old as string, midnight + 2 * 60 * minute);
  lastWritten(fresh as string, midnight + day);
  await passUntil(midnight + day + 4 * 60 * minute);
  expect(names().filter((name) => name.endsWith("partial"))).toEqual([fresh, other]);
});

test("a failure is logged and counted once, and the next backup is made as scheduled", async () => {
  const { passUntil, names, folder, log, value, settings, failure } = await opened();
  settings.folder = "/proc/not/here";
  await passUntil(midnight + 4 * 60 * minute);
  expect(failure()).toMatchObject({ text: expect.stringContaining("/proc/not") });
  expect([log.map(({ text }) => text), await value("failures"), await value("success")]).toEqual([
    ["backup failed"],
    1,
    0,
  ]);
  settings.folder = folder;
  await passUntil(midnight + day + 4 * 60 * minute);
  expect(log.map(({ text }) => text)).toEqual(["backup failed", "backup made"]);
  expect(names()).toEqual(["relay-20261124T030000Z.db"]);
  expect(failure()).toBe(null);
});

test("a failure outlives a restart, until the next backup is made or the settings name another folder", async () => {
  const { passUntil, begin, run, folder, setTime, settings, failure } = await opened();
  await passUntil(midnight + 60 * minute);
  writeFileSync(join(folder, "relay-20261123T030000Z.db"), "not replaced");
  await passUntil(midnight + 4 * 60 * minute);
  const failed = failure();
  expect(failed).toMatchObject({ since: midnight + 3 * 60 * minute });
  setTime(midnight + 5 * 60 * minute);
  begin();
  await run();
  expect(failure()).toEqual(failed);
  settings.folder = tempFolder();
  await run();
  expect(failure()).toBe(null);
  settings.folder = folder;
  await passUntil(midnight + day + 4 * 60 * minute);
  begin();
  await run();
  expect(failure()).toBe(null);
});

test("reports a folder that cannot be written before a backup is due, until the settings name another", async () => {
  const { run, settings, log, failure } = await opened({ folder: "/proc/not/here" });
  await run();
  expect(failure()).toEqual({
    folder: expect.stringMatching(/^\/proc\/not/),
    since: midnight,
    text: expect.stringMatching(/^\/proc\/not[^ ]*: no such file or directory$/),
  });
  await run();
  expect(failure()).not.toBe(null);
  settings.folder = tempFolder();
  await run();
  expect([failure(), log]).toEqual([null, []]);
});

test("a reload changes the schedule; one that is off makes none", async () => {
  const { passUntil, names, settings } = await opened({ schedule: "off" });
  await passUntil(midnight + 2 * day);
  expect(names()).toEqual([]);
  settings.schedule = "30 * * * *";
  await passUntil(midnight + 2 * day + 40 * minute);
  expect(names()).toEqual(["relay-20261125T003000Z.db"]);
  settings.schedule = "off";
  await passUntil(midnight + 3 * day);
  expect(names()).toHaveLength(1);
});

test("a backup that was due while the relay was stopped is not made up; the last one stays known", async () => {
  const { passUntil, names, begin, setTime, run, value } = await opened();
  await passUntil(midnight + 4 * 60 * minute);
  setTime(midnight + 2 * day + 12 * 60 * minute);
  begin();
  await run();
  await run();
  expect(names()).toEqual(["relay-20261123T030000Z.db"]);
  expect(await value("success")).toBe((midnight + 3 * 60 * minute) / 1000);
});

test("ends with the relay, and leaves nothing unfinished", async () => {
  const { run, setTime, names, log, value } = await opened();
  await run();
  setTime(midnight + 3 * 60 * minute);
  const ending = new AbortController();
  const running = run(ending.signal);
  setImmediate(() => ending.abort());
  await running;
  expect(names()).toEqual([]);
  expect([log, await value("failures")]).toEqual([[], 0]);
});
