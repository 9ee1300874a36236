// @module-tag slow: it starts a process for each fault of a file.
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makeRelayHere, startRelayHere } from "../harness/relay-here.ts";
import { makeRelay, type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { rowsOf } from "../harness/store-rows.ts";

/**
 * Root may write anything, so that its relay runs as nobody; anybody else is held by permissions as
 * they are.
 */
const unprivileged: { uid?: number } = process.getuid?.() === 0 ? { uid: 65_534 } : {};
const settings = { routes: [routeTo("http://127.0.0.1:9/")] };

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

test("rejects a second process on the same file, also by another path, and names the holder; reading works", async () => {
  const relay = await startRelay({ settings });
  const event = createMessages("second process").event();
  await postEvent(relay.webhookUrl, event);
  const link = join(relay.folder, "link.db");
  symlinkSync(relay.storePath, link);
  for (const storePath of [relay.storePath, link]) {
    expect(await refusalHere(storePath)).toContain(
      `is in use by another wamid-relay process (process ${relay.pid()} on `,
    );
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
  const made = await startRelayHere({ settings });
  const messages = createMessages("files");
  for (let n = 0; n < 3; n += 1) await postEvent(made.webhookUrl, messages.event());
  await made.stop();
  for (const suffix of ["", ".lock"]) {
    copyFileSync(`${made.storePath}${suffix}`, `${relay.storePath}${suffix}`);
    if (unprivileged.uid !== undefined)
      chownSync(`${relay.storePath}${suffix}`, unprivileged.uid, unprivileged.uid);
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
  for (const name of readdirSync(relay.folder).filter((name) =>
    /^relay\.db(-wal|-shm)?$/.test(name),
  )) {
    expect([name, (statSync(join(relay.folder, name)).mode & 0o777).toString(8)]).toEqual([
      name,
      "600",
    ]);
  }
});

test("creates missing folders, and reports one that it cannot create", async () => {
  const { folder, storePath } = await makeRelayHere({ settings });
  const deep = await startRelayHere({
    settings,
    storePath: join(folder, "some", "where", "relay.db"),
  });
  expect(statSync(deep.storePath).isFile()).toBe(true);
  writeFileSync(join(folder, "file"), "");
  for (const impossible of [join(folder, "file", "relay.db"), "/proc/nowhere/relay.db"]) {
    expect(await refusalHere(impossible)).toContain(`${impossible}.lock cannot be opened`);
  }
  mkdirSync(storePath);
  expect(await refusalHere(storePath)).toContain("relay.db cannot be opened");
});
