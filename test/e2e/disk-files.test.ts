// Slow: it starts a process for each fault of a file.
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makeRelayHere, startRelayHere } from "../harness/relay-here.ts";
import { makeRelay, type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";

/** Root may write anything, so that its relay runs as nobody; anybody else is held by permissions as they are. */
const unprivileged: { uid?: number } = process.getuid?.() === 0 ? { uid: 65_534 } : {};
const settings = { routes: [routeTo("http://127.0.0.1:9/")] };

/** Path of a file in which a relay has stored some events, and ended. */
async function fileWith(events: number): Promise<string> {
  const relay = await startRelayHere({ settings });
  const messages = createMessages("files");
  await Promise.all(Array.from({ length: events }, () => postEvent(relay.webhookUrl, messages.event())));
  await relay.stop();
  return relay.storePath;
}

const refusal = /^wamid-relay: [^\n]+\n$/;

/** Starts it as a process, expects exit code 1 and gives the one line it says. */
async function refusalOf(relay: RelayProcess): Promise<string> {
  const before = relay.stderr().length;
  expect(await relay.startRefused()).toEqual({ code: 1, signal: null });
  const said = relay.stderr().slice(before);
  expect(said).toMatch(refusal);
  return said;
}

/** The same in this process. */
async function refusalHere(storePath: string): Promise<string> {
  const { settingsPath } = await makeRelayHere({ settings, storePath });
  const { code, err } = await runHere(["serve", "--config", settingsPath]);
  expect([code, err]).toEqual([1, expect.stringMatching(refusal)]);
  return err;
}

function overwrite(path: string, bytes: Buffer, at: number): void {
  const file = openSync(path, "r+");
  writeSync(file, bytes, 0, bytes.length, at);
  closeSync(file);
}

test("rejects a second process on the same file, also by another path, and names the holder; reading works", async () => {
  const relay = await startRelay({ settings });
  const event = createMessages("second process").event();
  await postEvent(relay.webhookUrl, event);
  const link = join(relay.folder, "link.db");
  symlinkSync(relay.storePath, link);
  for (const storePath of [relay.storePath, link]) {
    expect(await refusalHere(storePath)).toContain(`is in use by another wamid-relay process (process ${relay.pid()} on `);
  }
  const listed = await runHere(["events", "list", "--json", "--config", relay.settingsPath]);
  expect(listed).toMatchObject({ code: 0, err: "" });
  expect(JSON.parse(listed.out)).toMatchObject({ data: [{ id: event.id }] });
  expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ word: "duplicate" });

  // A lock that a crash left behind holds nobody up.
  await relay.kill9();
  const second = await startRelayHere({ storePath: relay.storePath, settings });
  expect(await postEvent(second.webhookUrl, event)).toMatchObject({ word: "duplicate" });
  expect(await refusalOf(relay)).toContain(`process ${process.pid} on`);
});

test("rejects a file or folder that it cannot write, and accepts it when it can", async () => {
  const relay = await makeRelay({ ...unprivileged, settings });
  const made = await fileWith(3);
  for (const suffix of ["", ".lock"]) {
    copyFileSync(`${made}${suffix}`, `${relay.storePath}${suffix}`);
    if (unprivileged.uid !== undefined) chownSync(`${relay.storePath}${suffix}`, unprivileged.uid, unprivileged.uid);
  }
  chmodSync(relay.folder, 0o555);
  chmodSync(relay.storePath, 0o444);
  expect(await refusalOf(relay)).toMatch(/relay\.db is read-only for this user.*permissions/);
  chmodSync(relay.storePath, 0o000);
  expect(await refusalOf(relay)).toMatch(/relay\.db cannot be opened; check .*SQLITE_CANTOPEN/);
  chmodSync(relay.storePath, 0o600);
  expect(await refusalOf(relay)).toMatch(/relay\.db.*folder|relay\.db is read-only for this user/);
  chmodSync(relay.folder, 0o755);
  await relay.start();
  expect(rowsOf(relay.storePath, "SELECT 1 FROM events").length).toBe(3);
  expect((await relay.ask("/readyz")).status).toBe(200);
});

test("reports where it cannot create a file, and creates a private one elsewhere", async () => {
  const relay = await makeRelay({ ...unprivileged, settings });
  chmodSync(relay.folder, 0o555);
  expect(await refusalOf(relay)).toMatch(
    /relay\.db\.lock cannot be opened .*check that its folder exists and that this user may write there/,
  );
  chmodSync(relay.folder, 0o755);
  await relay.start();
  for (const name of readdirSync(relay.folder).filter((name) => /^relay\.db(-wal|-shm)?$/.test(name))) {
    expect([name, (statSync(join(relay.folder, name)).mode & 0o777).toString(8)]).toEqual([name, "600"]);
  }
});

test("creates missing folders, and reports one that it cannot create", async () => {
  const { folder, storePath } = await makeRelayHere({ settings });
  const deep = await startRelayHere({ settings, storePath: join(folder, "some", "where", "relay.db") });
  expect(statSync(deep.storePath).isFile()).toBe(true);
  writeFileSync(join(folder, "file"), "");
  for (const impossible of [join(folder, "file", "relay.db"), "/proc/nowhere/relay.db"]) {
    expect(await refusalHere(impossible)).toContain(`${impossible}.lock cannot be opened`);
  }
  mkdirSync(storePath);
  expect(await refusalHere(storePath)).toContain("relay.db cannot be opened");
});

test("rejects a file of another kind and does not change it", async () => {
  const relay = await makeRelayHere({ settings });
  const text = "This is no database, and long enough to be taken for one.\n".repeat(100);
  writeFileSync(relay.storePath, text);
  expect(await refusalHere(relay.storePath)).toContain("relay.db is not a SQLite database");
  expect(statSync(relay.storePath).size).toBe(text.length);

  const foreign = await makeRelayHere({ settings });
  const db = new Database(foreign.storePath);
  db.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (7)");
  db.close();
  expect(await refusalHere(foreign.storePath)).toContain("is a SQLite database of another program");
  expect(rowsOf(foreign.storePath, "SELECT name FROM sqlite_schema")).toEqual([{ name: "orders" }]);
  expect(rowsOf(foreign.storePath, "PRAGMA journal_mode")).toEqual([{ journal_mode: "delete" }]);

  // An empty file is nobody's.
  const empty = await makeRelayHere({ settings });
  writeFileSync(empty.storePath, "");
  await empty.start();
});

test("rejects a file of a newer version and does not change it", async () => {
  const storePath = await fileWith(2);
  const db = new Database(storePath);
  db.pragma("user_version = 99");
  db.close();
  expect(await refusalHere(storePath)).toMatch(/relay\.db was written by a newer wamid-relay \(schema 99, this version knows \d+\)/);
  const { settingsPath } = await makeRelayHere({ settings, storePath });
  const listed = await runHere(["events", "list", "--config", settingsPath]);
  expect(listed).toMatchObject({ code: 1, out: "" });
  expect(listed.err).toContain("newer wamid-relay");
  expect(rowsOf(storePath, "PRAGMA user_version")).toEqual([{ user_version: 99 }]);
});

test("answers 503 to requests that need destroyed pages, and does not crash", async () => {
  const downstream = await openDownstream();
  const relay = await makeRelay({ storePath: await fileWith(400), settings: { routes: [routeTo(downstream.url)] } });
  const size = statSync(relay.storePath).size;
  overwrite(relay.storePath, Buffer.alloc(Math.floor(size / 4096 / 2) * 4096, 0xab), Math.floor(size / 4096 / 4) * 4096);
  // Ready or not: it may find the damage before it is looked at.
  const ended = await Promise.race([relay.startListening().then(() => "listening" as const), relay.ended()]).catch(() => relay.ended());
  if (ended !== "listening") {
    // The damage is where a start looks.
    expect(ended).toEqual({ code: 1, signal: null });
    expect(relay.stderr()).toMatch(refusal);
    return;
  }
  const messages = createMessages("damaged");
  const answers = await Promise.all(Array.from({ length: 50 }, () => postEvent(relay.webhookUrl, messages.event())));
  for (const { status, word } of answers)
    expect([`${status} ${word}`]).toEqual([status === 200 ? "200 accepted" : "503 store_unavailable"]);
  expect(relay.isRunning()).toBe(true);
  expect((await relay.ask("/healthz")).status).toBe(200);
});

test("recovers the write-ahead log of a crash at the next start", async () => {
  const relay = await startRelay({ settings });
  const messages = createMessages("left in the log");
  const events = Array.from({ length: 30 }, messages.event);
  for (const event of events) expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ word: "accepted" });
  await relay.kill9();
  expect(statSync(`${relay.storePath}-wal`).size).toBeGreaterThan(0);
  // A half-written transaction at its end is none.
  overwrite(`${relay.storePath}-wal`, Buffer.alloc(3000, 0xcd), statSync(`${relay.storePath}-wal`).size);
  await relay.start();
  for (const event of events) expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ word: "duplicate" });
  await until("none more is needed", () => rowsOf(relay.storePath, "SELECT 1 FROM events").length === 30);
});
