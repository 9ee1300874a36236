import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../test/setup/free-port.ts";
import { buildFile } from "./audit/build-file.ts";
import { wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import type { RunResult, RunSpec } from "./load/run.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, spreadOf } from "./report.ts";

const usage = `What scheduled backups do to a relay that receives: node bench/backup.ts
  --events <n>          in the file (1000000; takes some 600 MB in the folder for temporary files, and as much for each of two backups)
  --rounds <n>          (3)
  --seconds <n>         measured per phase (15)
  --rate <n>            events a second offered (2000)
  --connections <n>     (64)
  --short               20000 events and one round of two seconds, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  seconds: { type: "string" },
  rate: { type: "string" },
  connections: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 20_000 : 1_000_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 3));
const seconds = numberFlag("seconds", flags.seconds, short ? 2 : 15);
const rate = numberFlag("rate", flags.rate, short ? 500 : 2000);
const connections = numberFlag("connections", flags.connections, 64);

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-backups-"));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
// What the file holds is not to be purged while it is measured.
const settings = {
  retention: { events: "365d", ignored: "365d", deliveries: "365d", messages: "365d" },
};
const relay = await startRelay({
  destination: `http://127.0.0.1:${await freePort()}/`,
  concurrency: 64,
  settings,
});
stack.defer(() => relay.stop());
await relay.end();
const built = buildFile({ path: relay.file, route: "tracked", events, say: console.log });
const fileBytes = statSync(relay.file).size;
console.log(`${built.events} events built: ${Math.round(fileBytes / 1e6)} MB`);
await relay.start();
const load = await startChild("load.ts");
stack.defer(() => load.stop());

const results: Record<"quiet" | "backup", RunResult[]> = { quiet: [], backup: [] };
const tookSeconds: number[] = [];
let mostLogBytes = 0;
let run = 0;
/** When the last backup was made; 0: never. */
const lastAt = () => metric("relay_backup_last_success_timestamp_seconds");

for (let each = 0; each < rounds; each += 1) {
  for (const phase of ["quiet", "backup"] as const) {
    run += 1;
    const before = await lastAt();
    if (phase === "backup") schedule("* * * * * *");
    const watching = new AbortController();
    const watched = watchLog(watching.signal);
    const result = await offered(run);
    if (phase === "backup") {
      // A relay that paused may not have begun one before it is told to stop.
      while ((await lastAt()) === before) await wait(50);
      schedule("off");
      // The one in progress ends.
      while (inProgress()) await wait(50);
      tookSeconds.push(await metric("relay_backup_duration_seconds"));
    }
    watching.abort();
    await watched;
    results[phase].push(result);
    const { p50, p99, max } = result.latency;
    console.log(
      `${phase}: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, at most ${max.toFixed(1)} ms`,
    );
  }
}
const failures = await metric("relay_backup_failures_total");
if (failures > 0) throw new Error(`${failures} backups failed: ${relay.output()}`);

const p99 = (phase: keyof typeof results) => results[phase].map(({ latency }) => latency.p99);
const longest = (phase: keyof typeof results) => results[phase].map(({ latency }) => latency.max);
const figures = {
  file: { events: built.events, bytes: fileBytes },
  backupSeconds: spreadOf(tookSeconds),
  mostLogBytes,
  p99Ms: { quiet: spreadOf(p99("quiet")), backup: spreadOf(p99("backup")) },
  maxMs: { quiet: spreadOf(longest("quiet")), backup: spreadOf(longest("backup")) },
};
printResult("backup", machine, figures, {
  [`p99 at ${rate}/s backup/quiet`]: ratioOf(p99("backup"), p99("quiet")),
});

/** Changes the schedule of the running relay. */
function schedule(pattern: string): void {
  const path = join(dirname(relay.file), "relay.yaml");
  const before = JSON.parse(readFileSync(path, "utf8")) as object;
  writeFileSync(
    path,
    JSON.stringify({ ...before, backup: { schedule: pattern, folder, keep: 1 } }),
  );
  process.kill(relay.pid(), "SIGHUP");
}

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${relay.port}/metrics`)).text();
  return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
}

function inProgress(): boolean {
  return readdirSync(folder).some((name) => name.endsWith(".partial"));
}

/** The greatest size of the write-ahead log. */
async function watchLog(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    mostLogBytes = Math.max(
      mostLogBytes,
      statSync(`${relay.file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    );
    await wait(200);
  }
}

async function offered(number: number): Promise<RunResult> {
  const warmupSeconds = short ? 0.1 : 0.5;
  const set = { run: number, count: Math.ceil(rate * (seconds + warmupSeconds)) };
  await load.ask({ prepare: set });
  await relay.register(wamidsOf(set));
  const spec: RunSpec = {
    port: relay.port,
    limit: set.count,
    connections,
    warmupMs: warmupSeconds * 1000,
    measureMs: seconds * 1000,
    rate,
    serverPid: relay.pid(),
    keepSentAt: false,
  };
  const result = (await load.ask({ run: spec })) as RunResult;
  if (result.statuses["200"] !== result.sent)
    throw new Error(`of ${result.sent} events: ${JSON.stringify(result.statuses)}`);
  return result;
}
