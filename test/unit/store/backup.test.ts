import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { basename, join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { type BackupOrder, backUp, restore } from "../../../src/store/sqlite/backup.ts";
import { openForReading } from "../../../src/store/sqlite/file.ts";
import { copyStore } from "../../../src/store/sqlite/thread-reads.ts";
import { openSqliteSubject } from "../../contract/sqlite-subject.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { integrityOf, rowsOf } from "../../harness/store-rows.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const eventsIn = (path: string) =>
  rowsOf<{ n: number }>(path, "SELECT count(*) AS n FROM events")[0]?.n;

/** A store with `events` events, and an empty folder for backups. */
async function opened(events = 3, bytesEach = 0) {
  const subject = await openSqliteSubject(rulesFor([{ name: "all" }]));
  const folder = tempFolder();
  onTestFinished(() => subject.end());
  const add = () =>
    subject.store.accept(anEvent({ wamid: "w", data: { filler: "x".repeat(bytesEach) } }));
  // In one commit: alone, each would wait for the disk.
  await Promise.all(Array.from({ length: events }, add));
  const order = (more: Partial<BackupOrder> = {}): BackupOrder => ({
    path: subject.path,
    file: join(folder, "backup.db"),
    replace: false,
    now: () => start,
    progress: () => {},
    signal: new AbortController().signal,
    ...more,
  });
  return { subject, folder, add, order, file: join(folder, "backup.db") };
}

test("writes during a copy neither restart it nor get into it", async () => {
  const { subject, folder, add } = await opened(1500, 8_000);
  const to = join(folder, "copy.db");
  writeFileSync(to, "");
  const db = openForReading(subject.path);
  const steps: number[] = [];
  const writes: Promise<unknown>[] = [];
  await copyStore(db, to, ({ checked }) => {
    steps.push(checked);
    writes.push(add());
  });
  db.close();
  await Promise.all(writes);
  expect(steps.length).toBeGreaterThan(4);
  expect(steps).toEqual(steps.toSorted((a, b) => a - b));
  expect([eventsIn(to), eventsIn(subject.path)]).toEqual([1500, 1500 + writes.length]);
  // One file, which is complete by itself.
  expect(readdirSync(folder)).toEqual(["copy.db"]);
});

test("a backup has all events, can be read by its user only, and needs no other file", async () => {
  const { subject, folder, order, file } = await opened();
  expect(existsSync(`${subject.path}-wal`)).toBe(true);
  const report = await backUp(order());
  expect(report).toMatchObject({
    file,
    bytes: statSync(file).size,
    audit: { balanced: true, events: { received: 3 } },
  });
  expect(readdirSync(folder)).toEqual(["backup.db"]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(eventsIn(file)).toBe(3);
});

test("an existing file is replaced only on request, and in one step", async () => {
  const { order, file } = await opened();
  writeFileSync(file, "before");
  await expect(backUp(order())).rejects.toThrow("exists; with --force it is replaced");
  expect(readFileSync(file, "utf8")).toBe("before");
  await backUp(order({ replace: true }));
  expect(eventsIn(file)).toBe(3);
});

test("a file that another process makes during the backup stays", async () => {
  const { order, file, folder } = await opened();
  const progress = () => writeFileSync(file, "theirs");
  await expect(backUp(order({ progress }))).rejects.toThrow("exists");
  expect(readFileSync(file, "utf8")).toBe("theirs");
  expect(readdirSync(folder)).toEqual(["backup.db"]);
});

test.each(["", ".lock"])("a backup never replaces the store's own file %j", async (ending) => {
  const { subject, order } = await opened();
  await expect(backUp(order({ file: subject.path + ending, replace: true }))).rejects.toThrow(
    "belongs to the store itself",
  );
  expect(eventsIn(subject.path)).toBe(3);
});

test.each(["copying", "checking", "auditing"] as const)(
  "ended while %s, a backup leaves nothing",
  async (at) => {
    const { order, folder } = await opened();
    const ending = new AbortController();
    const progress: BackupOrder["progress"] = (step) => void (step === at && ending.abort());
    await expect(backUp(order({ progress, signal: ending.signal }))).rejects.toThrow();
    expect(readdirSync(folder)).toEqual([]);
  },
);

test("a store whose index is damaged gives no backup", async () => {
  const { subject, folder, order } = await opened(300);
  const [root] = rowsOf<{ page: number }>(
    subject.path,
    "SELECT rootpage AS page FROM sqlite_schema WHERE name = 'events_id'",
  );
  await subject.close();
  const file = openSync(subject.path, "r+");
  writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, ((root?.page ?? 0) - 1) * 4096);
  closeSync(file);
  await expect(backUp(order())).rejects.toThrow(
    /relay\.db is damaged \(events: Tree \d+ page \d+.*\); restore a backup of it$/,
  );
  expect(readdirSync(folder)).toEqual([]);
});

test("restored, a relay continues with the content of the backup; the old store is kept with its log", async () => {
  const { subject, order, file, add } = await opened();
  await backUp(order());
  await add();
  await expect(restore(order({ replace: true }))).rejects.toThrow(
    "in use by another wamid-relay process",
  );
  await subject.close();
  await expect(restore(order())).rejects.toThrow("with --force it is kept under another name");
  const { kept, audit } = await restore(order({ replace: true }));
  expect(kept).toBe(`${subject.path}.before-restore-20270115T080000Z`);
  expect(audit).toMatchObject({ balanced: true, events: { received: 3 } });
  expect([eventsIn(subject.path), eventsIn(kept as string), eventsIn(file)]).toEqual([3, 4, 3]);
  expect(statSync(subject.path).mode & 0o777).toBe(0o600);
  const again = await openSqliteAt(subject.path);
  expect((await again.accept(anEvent({ wamid: "w" }))).result).toBe("accepted");
  await again.close();
  expect(eventsIn(subject.path)).toBe(4);
});

test("a log that a deleted or killed store left is set aside, not read into the restored one", async () => {
  const { subject, order, add } = await opened();
  await backUp(order());
  await add();
  // As `kill -9` leaves them: the newest event is in the log only.
  const [store, log] = ["", "-wal"].map((ending) => readFileSync(subject.path + ending));
  await subject.close();
  writeFileSync(subject.path, store as Buffer);
  writeFileSync(`${subject.path}-wal`, log as Buffer);
  const { kept } = await restore(order({ replace: true }));
  expect([eventsIn(subject.path), eventsIn(kept as string)]).toEqual([3, 4]);

  rmSync(subject.path);
  writeFileSync(`${subject.path}-wal`, log as Buffer);
  expect(await restore(order({ now: () => start + 1000 }))).toMatchObject({ kept: null });
  expect([eventsIn(subject.path), integrityOf(subject.path)]).toEqual([3, "ok"]);
});

test("a fault of the file system is one plain sentence about the backup", async () => {
  const { order, folder } = await opened(1);
  // As the final name it is short enough, with ".partial" it is not. Root may write anywhere.
  const file = join(folder, "b".repeat(250));
  await expect(backUp(order({ file }))).rejects.toThrow(`${file}: name too long`);
});

test("what is no whole backup is not restored, and the store stays as it is", async () => {
  const { subject, order, file, folder } = await opened(300);
  await backUp(order());
  await subject.close();
  const whole = readFileSync(file);
  const refused = async (content: Buffer | string, why: RegExp) => {
    const bad = join(folder, "bad.db");
    writeFileSync(bad, content);
    await expect(restore(order({ file: bad, replace: true }))).rejects.toThrow(why);
    expect(eventsIn(subject.path)).toBe(300);
  };
  await refused(
    "hello",
    /bad\.db is damaged, or not a store of wamid-relay \(SQLITE_NOTADB\); use another backup$/,
  );
  await refused(whole.subarray(0, whole.length / 2), /bad\.db is damaged/);
  await refused(
    Buffer.concat([
      whole.subarray(0, 4096 * 4),
      Buffer.alloc(4096 * 8, 0xff),
      whole.subarray(4096 * 12),
    ]),
    /bad\.db is damaged \(\w+: Tree \d+ page \d+.*\); use another backup$/,
  );
  const other = join(folder, "other.db");
  const db = new Database(other);
  db.exec("CREATE TABLE theirs (x)");
  db.close();
  await refused(readFileSync(other), /database of another program/);
  await expect(restore(order({ file: join(folder, "nowhere.db"), replace: true }))).rejects.toThrow(
    "there is no backup at",
  );
  writeFileSync(`${file}-wal`, "log");
  await expect(restore(order({ replace: true }))).rejects.toThrow("has a -wal file beside it");
  expect(readdirSync(join(subject.path, "..")).filter((name) => name.includes("partial"))).toEqual(
    [],
  );
});

test("removes what a killed restore or backup left beside its target", async () => {
  const { subject, folder, order } = await opened();
  await backUp(order());
  await subject.close();
  const left = (of: string) => ["", "-journal"].map((ending) => `${of}.0a1b2c3d.partial${ending}`);
  const partials = (at: string) => readdirSync(at).filter((name) => name.includes("partial"));
  const others = [`${subject.path}.12345678.partial.txt`, `${subject.path}.x.partial`];
  for (const file of [...left(subject.path), ...others]) writeFileSync(file, "left");
  await restore(order({ replace: true }));
  expect(partials(join(subject.path, ".."))).toEqual(
    others.map((file) => basename(file)).toSorted(),
  );

  // Another backup of the same name may run.
  const [old, fresh] = [`${order().file}.0a1b2c3d.partial`, `${order().file}.12345678.partial`];
  for (const file of [old, fresh]) writeFileSync(file, "left");
  utimesSync(old, new Date(start - 90_000_000), new Date(start - 90_000_000));
  utimesSync(fresh, new Date(start), new Date(start));
  await backUp(order({ replace: true }));
  expect(partials(folder)).toEqual([basename(fresh)]);
});

async function openSqliteAt(path: string) {
  const { openSqliteStore } = await import("../../../src/store/sqlite/open.ts");
  return openSqliteStore(path, rulesFor([{ name: "all" }]), {
    committed: () => {},
    failed: () => {},
  });
}
