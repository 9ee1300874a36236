// Slow: it backs up under load, kills the relay, and restores.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { createRandom } from "../../src/sandbox/random.ts";
import { openDownstream } from "../harness/downstream.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { openSender } from "../harness/sender.ts";
import { until } from "../harness/until.ts";
import { runCli } from "../integration/cli/run-cli.ts";
import { storedEvents } from "./crash-checks.ts";

/** `BACKUP_SEED=… npx vitest …` repeats the moment. */
const seed = process.env["BACKUP_SEED"] ?? String(Date.now());
const entry = new URL("../../src/cli/wamid-relay.js", import.meta.url).pathname;

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "backup-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** A relay under load, until `stop`; `acknowledged` grows. */
async function underLoad() {
  const downstream = await openDownstream({ keepBodies: false, keepArrivals: false });
  const relay = await startRelay({ settings: { log: { level: "warn" }, routes: [routeTo(downstream.url)] } });
  const messages = createMessages("backup");
  const acknowledged: string[] = [];
  const over = new AbortController();
  function* posts() {
    for (;;) yield postOf(messages.event());
  }
  const sending = openSender(relay, { concurrency: 32, rate: 500 }).run(posts(), {
    signal: over.signal,
    onResult: ({ subject }, result) => {
      if (subject.id !== null && JSON.stringify(result).includes('"status":200')) acknowledged.push(subject.id);
    },
  });
  const stop = async () => {
    over.abort();
    await sending;
  };
  return { relay, acknowledged, stop };
}

const backup = (relay: RelayProcess, ...args: string[]) => runCli(["backup", ...args, "--config", relay.settingsPath]);

test("a backup made under load and restored elsewhere has every event acknowledged before it began, and balances", async () => {
  console.log(`BACKUP_SEED=${seed}`);
  const { relay, acknowledged, stop } = await underLoad();
  await until("events are acknowledged", () => acknowledged.length > 500);
  await wait(createRandom(seed).below(2_000));
  const before = [...acknowledged];
  const file = join(newFolder(), "relay.db");
  const made = await backup(relay, file, "--json");
  expect(made).toMatchObject({ code: 0 });
  expect(JSON.parse(made.out)).toMatchObject({ balanced: true });
  expect(readdirSync(join(file, ".."))).toEqual(["relay.db"]);
  expect(acknowledged.length).toBeGreaterThan(before.length);
  await stop();
  await relay.kill9();

  const other = await startRelay({ settings: { routes: [] } });
  const refused = await runCli(["restore", file, "--config", other.settingsPath]);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("in use by another wamid-relay process") });
  await other.stop();
  const existing = await runCli(["restore", file, "--config", other.settingsPath]);
  expect(existing).toMatchObject({ code: 1, err: expect.stringContaining("--force") });
  const restored = await runCli(["restore", file, "--force", "--config", other.settingsPath, "--json"]);
  expect(restored.code).toBe(0);
  expect(existsSync(JSON.parse(restored.out).replaced)).toBe(true);

  const ids = new Set(storedEvents(other.storePath).map(({ id }) => id));
  expect(before.filter((id) => !ids.has(id))).toEqual([]);
  expect(await runCli(["audit", "--config", other.settingsPath])).toMatchObject({ code: 0 });
  await other.start();
  expect((await other.ask("/readyz")).status).toBe(200);
});

test("a backup that is killed leaves no file under its name, and the next one succeeds", async () => {
  const { relay, acknowledged, stop } = await underLoad();
  await until("events are acknowledged", () => acknowledged.length > 2_000);
  const folder = newFolder();
  const file = join(folder, "relay.db");
  const child = spawn(process.execPath, [entry, "backup", file, "--config", relay.settingsPath], { stdio: "ignore" });
  await until("it copies", () => readdirSync(folder).length > 0 || child.exitCode !== null);
  child.kill("SIGKILL");
  await once(child, "exit");
  const left = readdirSync(folder);
  expect(left.includes("relay.db") && left.length > 1).toBe(false);
  expect(await backup(relay, file, "--force")).toMatchObject({ code: 0 });
  expect(readdirSync(folder)).toEqual(["relay.db"]);
  await stop();
});

test("scheduled backups appear, and older ones are deleted", async () => {
  const folder = newFolder();
  const relay = await startRelay({ settings: { routes: [], backup: { schedule: "* * * * * *", folder, keep: 2 } } });
  const lines = () => relay.log().filter(({ msg }) => msg === "backup made");
  await until("four were made", () => lines().length >= 4);
  await relay.stop();
  const kept = readdirSync(folder);
  expect(kept.filter((name) => !name.includes(".partial")).length).toBeLessThanOrEqual(3);
  expect(lines().every(({ balanced }) => balanced === true)).toBe(true);
});
