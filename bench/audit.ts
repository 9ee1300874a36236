import { statSync } from "node:fs";
import { freePort } from "../test/setup/free-port.ts";
import { buildFile } from "./audit/build-file.ts";
import { wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { residentMiB } from "./load/measure.ts";
import type { RunResult, RunSpec } from "./load/run.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, round, spreadOf } from "./report.ts";

const usage = `How long an audit takes, and what it does to a relay that receives: node bench/audit.ts
  --events <n>          in the file (10000000; takes some 8 GB in the folder for temporary files)
  --rounds <n>          (3)
  --seconds <n>         measured per phase (10)
  --rate <n>            events a second offered (2000)
  --connections <n>     (64)
  --short               20000 events and one round of a fifth of a second, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  seconds: { type: "string" },
  rate: { type: "string" },
  connections: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 20_000 : 10_000_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 3));
const seconds = numberFlag("seconds", flags.seconds, short ? 0.2 : 10);
const rate = numberFlag("rate", flags.rate, short ? 500 : 2000);
const connections = numberFlag("connections", flags.connections, 64);

interface Report {
  readonly balanced: boolean;
  readonly tookMs: number;
  readonly rows: {
    readonly events: number;
    readonly deliveries: number;
    readonly attempts: number;
  };
  readonly broken: object;
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
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
const buildAt = performance.now();
const built = buildFile({ path: relay.file, route: "tracked", events, say: console.log });
const buildSeconds = (performance.now() - buildAt) / 1000;
const fileBytes = statSync(relay.file).size;
console.log(
  `${built.events} events built in ${buildSeconds.toFixed(0)} s: ${Math.round(fileBytes / 1e6)} MB`,
);
const readyMs = await relay.start();
const load = await startChild("load.ts");
stack.defer(() => load.stop());

const alone = await audited();
const rows = alone.rows.events + alone.rows.deliveries + alone.rows.attempts;
console.log(
  `audit alone: ${(alone.tookMs / 1000).toFixed(1)} s, ${Math.round(alone.rows.events / (alone.tookMs / 1000))} events/s`,
);
const countAt = performance.now();
await relay.dispositions();
const statsMs = performance.now() - countAt;
console.log(`stats alone: ${Math.round(statsMs)} ms`);

const results: Record<"quiet" | "audit" | "stats", RunResult[]> = {
  quiet: [],
  audit: [],
  stats: [],
};
const busy: number[] = [];
let run = 0;
for (let each = 0; each < rounds; each += 1) {
  for (const phase of ["quiet", "audit", "stats"] as const) {
    run += 1;
    let isOver = false;
    const looking = phase === "quiet" ? Promise.resolve() : look(phase, () => isOver);
    const result = await offered(run);
    isOver = true;
    await looking;
    results[phase].push(result);
    const { p50, p99, max } = result.latency;
    console.log(
      `${phase}: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, at most ${max.toFixed(1)} ms`,
    );
  }
}
const p99 = (phase: keyof typeof results) => results[phase].map(({ latency }) => latency.p99);
const most = (phase: keyof typeof results) => results[phase].map(({ latency }) => latency.max);
const figures = {
  file: {
    events: built.events,
    deliveries: built.deliveries,
    attempts: built.attempts,
    bytes: fileBytes,
    buildSeconds: round(buildSeconds),
  },
  readyMs: round(readyMs),
  audit: {
    seconds: round(alone.tookMs / 1000),
    eventsPerSecond: round(alone.rows.events / (alone.tookMs / 1000)),
    rowsPerSecond: round(rows / (alone.tookMs / 1000)),
    besideLoadSeconds: spreadOf(busy),
  },
  statsMs: round(statsMs),
  residentMiB: round(residentMiB(relay.pid()) ?? Number.NaN),
  p99Ms: {
    quiet: spreadOf(p99("quiet")),
    audit: spreadOf(p99("audit")),
    stats: spreadOf(p99("stats")),
  },
  maxMs: {
    quiet: spreadOf(most("quiet")),
    audit: spreadOf(most("audit")),
    stats: spreadOf(most("stats")),
  },
};
printResult("audit", machine, figures, {
  [`p99 at ${rate}/s audit/quiet`]: ratioOf(p99("audit"), p99("quiet")),
  [`p99 at ${rate}/s stats/quiet`]: ratioOf(p99("stats"), p99("quiet")),
});

/** A whole audit; rejects when the sums do not match. */
async function audited(): Promise<Report> {
  for (;;) {
    const answer = (await relay.get("/v1/audit?wait=30")) as Report | { checked: number };
    if ("checked" in answer) continue;
    if (!answer.balanced)
      throw new Error(`the sums do not match: ${JSON.stringify(answer.broken)}`);
    return answer;
  }
}

/** Audits, or counts, again and again until the load is over. */
async function look(phase: "audit" | "stats", isOver: () => boolean): Promise<void> {
  do {
    if (phase === "stats") await relay.dispositions();
    else busy.push((await audited()).tookMs / 1000);
  } while (!isOver());
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
