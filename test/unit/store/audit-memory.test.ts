import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { ddl } from "../../../src/store/schema/ddl.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const url = (file: string) =>
  JSON.stringify(new URL(`../../../src/store/${file}`, import.meta.url).href);

/** Runs in a thread with little memory: an audit of the history alone, before any row was read. */
const auditing = `
const { parentPort, workerData } = await import("node:worker_threads");
const [{ createHistoryAudit }, { createSqliteRunner }, { default: Database }] = await Promise.all([
  import(${url("audit/tally.ts")}), import(${url("sqlite/runner.ts")}), import(${JSON.stringify(import.meta.resolve("better-sqlite3"))}),
]);
const db = new Database(workerData);
let differences = 0;
const history = createHistoryAudit({ offence: () => (differences += 1) });
createSqliteRunner(db).now(history.check({ events: null, deliveries: null, history: null }));
db.close();
parentPort.postMessage(differences);
`;

test("an audit holds an hour's counts together, so a history of many routes needs little memory", async () => {
  const folder = tempFolder();
  const path = join(folder, "relay.db");
  const db = new Database(path);
  for (const statement of ddl("sqlite")) db.exec(statement);
  const [routes, hours] = [1000, 200];
  const last = Math.floor(Date.now() / 3_600_000);
  db.prepare(
    `WITH RECURSIVE hour(h) AS (SELECT 1 UNION ALL SELECT h + 1 FROM hour WHERE h < ?),
       route(r) AS (SELECT 1 UNION ALL SELECT r + 1 FROM route WHERE r < ?)
     INSERT INTO counters SELECT -60 * (? - h), 'main', 'attempts', 'route ' || r, 'delivered', '', 1 FROM hour, route`,
  ).run(hours, routes, last);
  db.close();

  const thread = new Worker(auditing, {
    eval: true,
    execArgv: [],
    workerData: path,
    resourceLimits: { maxOldGenerationSizeMb: 48 },
  });
  const [differences] = await once(thread, "message");
  expect(differences).toBe(routes * hours);
  await thread.terminate();
});
