import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { openForWriting } from "../../../src/store/sqlite/file.ts";
import { createNames } from "../../../src/store/sqlite/names.ts";

const url = (file: string) => JSON.stringify(new URL(`../../../src/store/sqlite/${file}`, import.meta.url).href);

/** Runs in a thread with little memory: an audit of the history alone, before any row was read. */
const auditing = `
const { parentPort, workerData } = await import("node:worker_threads");
const [{ createHistoryAudit }, { openForReading }, { createNames }] = await Promise.all([
  import(${url("audit-history.ts")}), import(${url("file.ts")}), import(${url("names.ts")}),
]);
const db = openForReading(workerData);
let differences = 0;
createHistoryAudit(db, createNames(db)).check({ offence: () => (differences += 1) });
db.close();
parentPort.postMessage(differences);
`;

test("an audit holds a minute's counts together, so a history of many routes needs little memory", async () => {
  const folder = mkdtempSync(join(tmpdir(), "audit-memory-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "relay.db");
  const db = openForWriting(path, "test", "test");
  const route = createNames(db).idOf("route", "r");
  const [labels, minutes] = [1000, 200];
  const first = Math.floor(Date.now() / 60_000) - minutes;
  const upTo = "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)";
  db.prepare(`${upTo} INSERT INTO history_names (series, subject, label, last_at) SELECT 'attempts', ?, 'e' || n, 0 FROM i`).run(
    labels,
    route,
  );
  db.prepare(`${upTo} INSERT INTO history_minutes (at, counter, n, writes) SELECT ? + n, id, 1, 1 FROM i, history_names`).run(
    minutes,
    first,
  );
  db.close();

  const thread = new Worker(auditing, { eval: true, execArgv: [], workerData: path, resourceLimits: { maxOldGenerationSizeMb: 48 } });
  const [differences] = await once(thread, "message");
  expect(differences).toBe(labels * minutes);
  await thread.terminate();
});
