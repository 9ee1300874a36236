// @module-tag slow: it backs up under load, kills backups at random moments, and runs the commands
// of docs/how-to/back-up-and-restore.md.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Client } from "pg";
import { expect, test } from "vitest";
import type { AuditReport } from "../../src/model/audit.ts";
import { createRandom } from "../../src/sandbox/ids.ts";
import { audit } from "../../src/store/audit/audit.ts";
import { openForReading } from "../../src/store/sqlite/file.ts";
import { createSqliteRunner } from "../../src/store/sqlite/runner.ts";
import { statsOf } from "../harness/ask-relay.ts";
import { openShell } from "../harness/docs-shell.ts";
import { openDownstream } from "../harness/downstream.ts";
import { between, codeBlocks, readPage } from "../harness/pages.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { entry, makeRelay, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { openSender, signedPosts, untilItIsBack } from "../harness/sender.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { runProcessOn } from "../integration/cli/run-cli.ts";
import { findProgram } from "../setup/find-program.ts";
import { startPostgres } from "../setup/postgres.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { storedEvents } from "./crash-checks.ts";

const rounds = soakSize(2, 20);

/** Ids with a 2xx so far. */
const acknowledgedOf = (sender: ReturnType<typeof openSender>) =>
  new Set(sender.acknowledged.keys());

function auditFile(path: string): AuditReport {
  const db = openForReading(path);
  try {
    return createSqliteRunner(db).read(audit({ isRunning: false, now: Date.now() }, () => {}));
  } finally {
    db.close();
  }
}

test("a backup at a random moment under load has every event acknowledged before it; restored elsewhere, it balances", async () => {
  const random = createRandom(seed);
  const downstream = await openDownstream({ keepBodies: false });
  const settings = {
    log: { level: "warn" },
    routes: [routeTo(downstream.url, { to: { concurrency: 32 } })],
  };
  const relay = await startRelay({ settings });
  const sender = openSender(relay, { concurrency: 32, rate: 500, retry: untilItIsBack });
  const over = new AbortController();
  let answered = 0;
  let mostMeanwhile = 0;
  const posts = signedPosts(seed);
  const sending = sender.run(posts, {
    signal: over.signal,
    onResult() {
      answered += 1;
    },
  });

  for (let round = 1; round <= rounds; round += 1) {
    const moment = answered + 100 + random.below(300);
    await until("the load is on", () => answered >= moment);
    await wait(random.below(50));
    const file = join(relay.folder, `backup-${round}.db`);
    const before = acknowledgedOf(sender);
    const made = await runProcessOn(relay, "backup", file);
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining("the sums match") });
    mostMeanwhile = Math.max(mostMeanwhile, acknowledgedOf(sender).size - before.size);
    if (round === rounds) await relay.kill9();

    const elsewhere = await makeRelay({ settings });
    expect(await runHere(["restore", file, "--config", elsewhere.settingsPath])).toMatchObject({
      code: 0,
    });
    const stored = new Set(storedEvents(elsewhere.storePath).map(({ id }) => id));
    expect([...before].filter((id) => !stored.has(id))).toEqual([]);
    expect(auditFile(elsewhere.storePath)).toMatchObject({ balanced: true, broken: {} });
    console.log(
      `round ${round}: ${before.size} events acknowledged before the backup, ${stored.size} in it`,
    );
    if (round < rounds) await elsewhere.dispose();
    else {
      over.abort();
      await sending;
      // What waited goes out, and new events come in.
      await elsewhere.start();
      const event = createMessages(`${seed} after`).event();
      expect((await postEvent(elsewhere.webhookUrl, event)).word).toBe("accepted");
      await until("the new event is delivered", () =>
        downstream.arrivals.some(({ eventId }) => eventId === event.id),
      );
      await until("all is delivered", async () => {
        const { waiting, held } = (await statsOf(elsewhere)).deliveries;
        return waiting + held === 0;
      });
      expect((await runHere(["audit", "--config", elsewhere.settingsPath])).code).toBe(0);
    }
  }
  // The load went on during backups. A pause of this process can hide that once.
  expect(mostMeanwhile).toBeGreaterThan(0);
});

test("kill -9 during a backup leaves no file under its name that is not whole", async () => {
  const relay = await startRelay({ settings: { log: { level: "warn" }, routes: [] } });
  const sender = openSender(relay, { concurrency: 32 });
  await sender.run(signedPosts(seed, 300));
  const file = join(relay.folder, "backups", "backup.db");
  mkdirSync(join(relay.folder, "backups"));
  const names = () => readdirSync(join(relay.folder, "backups"));
  // In the middle for certain: the file never gets its name.
  const never = `import files from "node:fs/promises"; import { syncBuiltinESMExports } from "node:module";
    for (const name of ["link", "rename"]) files[name] = () => new Promise(() => setInterval(() => {}, 60_000));
    syncBuiltinESMExports();`;
  const args = [
    `--import=data:text/javascript,${encodeURIComponent(never)}`,
    entry,
    "backup",
    file,
    "--config",
    relay.settingsPath,
  ];
  const child = spawn(process.execPath, args, { stdio: "ignore" });
  const ended = once(child, "exit");
  await until("the unfinished file appears", () => names().length > 0);
  child.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
  expect(names().filter((name) => !/^backup\.db\.[0-9a-f]{8}\.partial/.test(name))).toEqual([]);

  // The relay was not disturbed.
  expect(
    (await postEvent(relay.webhookUrl, createMessages(`${seed} undisturbed`).event())).word,
  ).toBe("accepted");
});

const page = readPage("docs/how-to/back-up-and-restore.md");

/** The shell blocks of a section. */
function blocksOf(heading: string): string[] {
  const blocks = codeBlocks(between(`${page}\n## `, `\n## ${heading}\n`, "\n## "));
  expect(blocks.length, heading).toBeGreaterThan(0);
  return blocks;
}

/** Runs lines of the page in a folder with `relay.yaml`; `/backups` is a folder beside it. */
function openBackupShell(settings: object, env: Readonly<Record<string, string>> = {}) {
  const { folder, run } = openShell();
  mkdirSync(join(folder, "backups"));
  writeFileSync(join(folder, "relay.yaml"), JSON.stringify(settings));
  return (lines: readonly string[]) =>
    run(
      lines.map((line) => line.replaceAll("/backups/", `${folder}/backups/`)),
      env,
    );
}

test("the commands of back-up-and-restore.md work as written on SQLite", async () => {
  const relay = await startRelay({ settings: { log: { level: "warn" } } });
  await postEvent(relay.webhookUrl, createMessages("documented").event());
  const run = openBackupShell(JSON.parse(readFileSync(relay.settingsPath, "utf8")) as object);
  const made = await run(blocksOf("Make a backup"));
  expect(made).toEqual({ code: 0, out: expect.stringContaining("the sums match; 1 event,") });
  const tested = await run(blocksOf("Test a backup"));
  expect(tested).toEqual({
    code: 0,
    out: expect.stringMatching(
      /restored\/relay\.db[\s\S]*the sums match; 1 event,[\s\S]*the sums match; 1 event,/,
    ),
  });
  // A second test looks at the newer backup, and not at what the first one restored.
  await postEvent(relay.webhookUrl, createMessages("documented again").event());
  const again = await run([
    "wamid-relay backup /backups/relay.db --force",
    ...blocksOf("Test a backup"),
  ]);
  expect(again).toEqual({
    code: 0,
    out: expect.stringMatching(/(the sums match; 2 events[\s\S]*){3}$/),
  });
  expect(await run(blocksOf("Restore"))).toEqual({
    code: 1,
    out: expect.stringContaining("is in use by another wamid-relay process"),
  });
  await relay.stop();
  expect(await run(blocksOf("Restore"))).toEqual({
    code: 0,
    out: expect.stringContaining("before-restore-"),
  });
  await relay.start();
  expect((await runHere(["audit", "--config", relay.settingsPath])).out).toContain(
    "the sums match; 2 events",
  );
});

// PostgreSQL 14, because a pg_dump that is older than its server refuses.
test("the commands of back-up-and-restore.md work as written on PostgreSQL", async () => {
  findProgram("pg_dump", { package: "postgresql-client" });
  await using server = await startPostgres({ version: 14, tcp: true });
  const admin = new Client(server.url);
  await admin.connect();
  await admin.query("CREATE DATABASE relay");
  await admin.end();
  const database = server.url.replace(/\/postgres$/, "");
  const storage = { driver: "postgres", url: `${database}/relay`, path: undefined };
  const relay = await startRelay({ settings: { log: { level: "warn" }, storage } });
  const event = createMessages("documented on PostgreSQL").event();
  await postEvent(relay.webhookUrl, event);
  const settings = JSON.parse(readFileSync(relay.settingsPath, "utf8")) as object;
  const run = openBackupShell(
    { ...settings, storage: { ...storage, url: "${POSTGRES_URL}" } },
    { POSTGRES_URL: `${database}/relay`, DATABASE: database },
  );
  const [dump, check, ...others] = blocksOf("PostgreSQL");
  expect(others).toEqual([]);
  expect(await run([dump as string, check as string])).toEqual({
    code: 0,
    out: expect.stringContaining("the sums match; 1 event,"),
  });
  await relay.stop();

  const restored = [
    'createdb --maintenance-db="$POSTGRES_URL" new',
    'pg_restore --no-owner --dbname="$DATABASE/new" /backups/relay.dump',
  ];
  expect(await run(restored)).toEqual({ code: 0, out: "" });
  const again = await startRelay({
    settings: { log: { level: "warn" }, storage: { ...storage, url: `${database}/new` } },
  });
  expect((await postEvent(again.webhookUrl, event)).word).toBe("duplicate");
  expect((await postEvent(again.webhookUrl, createMessages("new").event())).word).toBe("accepted");
  await again.stop();

  expect(await run(["wamid-relay backup /backups/relay.db"])).toEqual({
    code: 1,
    out: expect.stringContaining("docs/how-to/back-up-and-restore.md"),
  });
});
