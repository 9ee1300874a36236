import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type BackupParts, startBackups } from "../../../src/app/backups.ts";
import { createSupervisor } from "../../../src/app/supervise.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const start = Date.parse("2026-11-23T00:00:00Z");
const day = 86_400_000;

function open({ schedule = "15 3 * * *", keep = 2 } = {}) {
  const root = mkdtempSync(join(tmpdir(), "backups-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  const folder = join(root, "backups");
  const clock = createManualClock(start);
  const lines: string[] = [];
  const values = new Map<string, number>();
  const gauge = (name: string) => ({
    set: (value: number) => void values.set(name, value),
    inc: () => void values.set(name, (values.get(name) ?? 0) + 1),
  });
  const backup = { schedule, folder, keep };
  const state = { isFailing: false };
  const supervisor = createSupervisor({ clock, log: { error: () => {} } as never });
  onTestFinished(supervisor.close);
  function run() {
    return startBackups({
      settings: () => ({ backup }),
      path: join(root, "relay.db"),
      async backUp(file) {
        if (state.isFailing) throw new Error("disk full");
        mkdirSync(folder, { recursive: true });
        writeFileSync(file, "copy");
        return { file, bytes: 4, audit: { rows: { events: 1, deliveries: 2, attempts: 0 }, balanced: true } as never, tookMs: 1500 };
      },
      clock,
      supervise: supervisor.supervise,
      log: { info: (_: object, text: string) => lines.push(text), error: (_: object, text: string) => lines.push(text) } as never,
      metrics: {
        backupSuccess: gauge("success"),
        backupSeconds: gauge("seconds"),
        backupBytes: gauge("bytes"),
        backupFailures: gauge("failures"),
      } as unknown as BackupParts["metrics"],
    });
  }
  const files = () => (existsSync(folder) ? readdirSync(folder).sort() : []);
  return { clock, folder, backup, state, lines, values, run, files };
}

test("backs up by the schedule in UTC, and reports size, duration and time", async () => {
  const { clock, run, files, lines, values } = open();
  run();
  await clock.advance(3 * 3_600_000);
  expect(files()).toEqual([]);
  await clock.advance(15 * 60_000);
  expect(files()).toEqual(["relay-20261123T031500Z.db"]);
  expect(lines).toEqual(["backup made"]);
  expect(Object.fromEntries(values)).toEqual({ success: (start + 195 * 60_000) / 1000, seconds: 1.5, bytes: 4 });
});

test("keeps the newest backups of this store, and deletes no other file", async () => {
  const { clock, folder, run, files } = open();
  const others = ["relay-notes.db", "relay-20261120T031500Z.db.gz", "other-20261120T031500Z.db", "relay.db"];
  mkdirSync(folder);
  for (const file of [...others, "relay-20261120T031500Z.db", "relay-20261121T031500Z.db.partial"]) writeFileSync(join(folder, file), "");
  run();
  await clock.advance(3 * day);
  expect(files()).toEqual([...others, "relay-20261124T031500Z.db", "relay-20261125T031500Z.db"].sort());
});

test("a failure deletes nothing, is counted, and the next backup follows the schedule", async () => {
  const { clock, run, files, state, lines, values } = open({ keep: 1 });
  run();
  await clock.advance(day);
  state.isFailing = true;
  await clock.advance(day);
  expect(files()).toEqual(["relay-20261123T031500Z.db"]);
  expect([values.get("failures"), lines.at(-1)]).toEqual([1, "backup failed"]);
  state.isFailing = false;
  await clock.advance(day);
  expect(files()).toEqual(["relay-20261125T031500Z.db"]);
});

test("a reload changes the schedule, and a restart knows the last backup", async () => {
  const { clock, run, files, backup, values } = open({ schedule: "off" });
  const task = run();
  await clock.advance(2 * day);
  expect([files(), values.get("success")]).toEqual([[], 0]);
  backup.schedule = "0 * * * *";
  task.wake();
  await clock.advance(3_600_000);
  expect(files()).toEqual(["relay-20261125T010000Z.db"]);
  values.clear();
  run();
  expect(values.get("success")).toBe(Date.parse("2026-11-25T01:00:00Z") / 1000);
});
