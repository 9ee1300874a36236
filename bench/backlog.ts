import { setTimeout as wait } from "node:timers/promises";
import Database from "better-sqlite3";
import { freePort } from "../test/setup/free-port.ts";
import { startPostgres } from "../test/setup/postgres.ts";
import { drain } from "./backlog/drain.ts";
import { fill } from "./backlog/fill.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { processorSeconds, residentMiB } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, round } from "./report.ts";

const usage = `A backlog of deliveries made by real ingest while the destination is down: node bench/backlog.ts
  --deliveries <n>      waiting in the end (200000)
  --connections <n>     (64)
  --postgres            on PostgreSQL 18, which must be installed for tests; without figures of the disk
  --short               2000 deliveries, for CI`;

const flags = readFlags(usage, {
  deliveries: { type: "string" },
  connections: { type: "string" },
  postgres: { type: "boolean" },
  short: { type: "boolean" },
});
const deliveries = Math.ceil(
  numberFlag("deliveries", flags.deliveries, flags.short === true ? 2000 : 200_000),
);
const connections = numberFlag("connections", flags.connections, 64);

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const sinkPort = await freePort();
const settings =
  flags.postgres === true ? { storage: { driver: "postgres", url: await startedPostgres() } } : {};
const relay = await startRelay({
  destination: `http://127.0.0.1:${sinkPort}/events`,
  concurrency: 64,
  settings,
});
stack.defer(() => relay.stop());
const load = await startChild("load.ts");
stack.defer(() => load.stop());

const emptyMiB = residentMiB(relay.pid()) ?? Number.NaN;
const filled = await fill({ relay, load, deliveries, connections, say: console.log });

const idleMiB = await atRest(relay.pid());
await relay.kill();
const readyMs = await relay.start();
const afterRestartMiB = residentMiB(relay.pid()) ?? Number.NaN;
console.log(
  `killed with ${deliveries} waiting: ready again after ${Math.round(readyMs)} ms, ${Math.round(afterRestartMiB)} MiB resident`,
);
const kept = Object.values(await relay.dispositions()).reduce((sum, count) => sum + count, 0);
if (kept !== deliveries)
  throw new Error(
    `${deliveries} events were acknowledged and after the kill the file holds ${kept}`,
  );

const drained = await drain({ relay, sinkPort, deliveries, stack, say: console.log });

// At rest: ended in order, so that the write-ahead log is in the database.
await relay.end();
const restBytes = await relay.diskBytes();
/**
 * What deliveries that no longer wait have left is used again, or given back to the disk by
 * retention.
 */
const freeBytes = flags.postgres === true ? 0 : freeIn(relay.file);

const figures = {
  deliveries,
  bodyBytes: filled.bodyBytes,
  diskBytesPerEvent: {
    waiting: round(filled.diskBytes / deliveries),
    delivered: round(restBytes / deliveries),
    used: round((restBytes - freeBytes) / deliveries),
  },
  ingest: { start: round(filled.startPerSecond), end: round(filled.endPerSecond) },
  residentMiB: {
    empty: round(emptyMiB),
    most: round(Math.max(...filled.residentMiB)),
    full: round(idleMiB),
    afterRestart: round(afterRestartMiB),
    mostWhileDraining: round(Math.max(...drained.residentMiB)),
  },
  readyAfterKillMs: round(readyMs),
  drain: {
    perSecond: round(drained.perSecond),
    firstAfterMs: round(drained.firstAfterMs),
    repeats: drained.repeats,
  },
};
printResult("backlog", machine, figures, {
  "ingest end/start": round(filled.endPerSecond / filled.startPerSecond),
  "disk/body": round(restBytes / deliveries / filled.bodyBytes),
  "disk in use/body": round((restBytes - freeBytes) / deliveries / filled.bodyBytes),
  "drain/ingest": round(drained.perSecond / filled.startPerSecond),
});

/** Bytes of free pages. */
function freeIn(file: string): number {
  const db = new Database(file, { readonly: true });
  const number = (name: string) => db.pragma(name, { simple: true }) as number;
  const bytes = number("freelist_count") * number("page_size");
  db.close();
  return bytes;
}

async function startedPostgres(): Promise<string> {
  const server = await startPostgres({ durable: true, tcp: true });
  stack.defer(() => server.stop());
  return server.url;
}

/**
 * Resident memory in MiB once the process has had nothing much to do for a while, so that a last
 * collection is over.
 */
async function atRest(pid: number): Promise<number> {
  for (let tries = 0; tries < 20; tries += 1) {
    const before = processorSeconds(pid);
    await wait(250);
    const after = processorSeconds(pid);
    if (before === null || after === null || after - before < 0.025) break;
  }
  return residentMiB(pid) ?? Number.NaN;
}
