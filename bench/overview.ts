import { setTimeout as wait } from "node:timers/promises";
import { openForWriting } from "../src/store/sqlite/file.ts";
import { freePort } from "../test/setup/free-port.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { quantile } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, round, spreadOf } from "./report.ts";

const usage = `How long other requests wait while the overview of many routes is read: node bench/overview.ts
  --routes <n>          (1000)
  --hours <n>           in which every route was busy every minute (24)
  --rounds <n>          (5)
  --seconds <n>         measured per phase (10)
  --short               200 routes, one hour, one round of two seconds, for CI`;

const flags = readFlags(usage, {
  routes: { type: "string" },
  hours: { type: "string" },
  rounds: { type: "string" },
  seconds: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const routes = Math.ceil(numberFlag("routes", flags.routes, short ? 200 : 1000));
const hours = numberFlag("hours", flags.hours, short ? 1 : 24);
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 5));
const seconds = numberFlag("seconds", flags.seconds, short ? 2 : 10);

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const destination = `http://127.0.0.1:${await freePort()}/`;
const names = Array.from({ length: routes }, (_, n) => `route-${n}`);
const to = { url: destination, allowPrivate: true };
const settings = { routes: names.map((name) => ({ name, match: { events: ["message.*"] }, to })) };
const relay = await startRelay({ destination, concurrency: 1, settings });
stack.defer(() => relay.stop());
await relay.end();
const cells = fill(relay.file);
await relay.start();
console.log(`${routes} routes, ${cells} counts of ${hours} hours`);

const waits: Record<"quiet" | "reading", number[][]> = { quiet: [], reading: [] };
const overviewMs: number[] = [];
const seriesMs: number[] = [];
for (let each = 0; each < rounds; each += 1) {
  for (const phase of ["quiet", "reading"] as const) {
    const over = new AbortController();
    const reading = phase === "quiet" ? Promise.resolve() : read(over.signal);
    const own = await probe(seconds * 1000);
    over.abort();
    await reading;
    waits[phase].push(own.toSorted((a, b) => a - b));
    console.log(
      `${phase}: p99 ${round(
        quantile(
          own.toSorted((a, b) => a - b),
          0.99,
        ),
      )} ms, at most ${round(Math.max(...own))} ms`,
    );
  }
}
const p99 = (phase: keyof typeof waits) => waits[phase].map((own) => quantile(own, 0.99));
const longest = (phase: keyof typeof waits) => waits[phase].map((own) => own.at(-1) ?? Number.NaN);
printResult(
  "overview",
  machine,
  {
    routes,
    cells,
    overviewMs: spreadOf(overviewMs),
    seriesMs: spreadOf(seriesMs),
    p99Ms: { quiet: spreadOf(p99("quiet")), reading: spreadOf(p99("reading")) },
    maxMs: { quiet: spreadOf(longest("quiet")), reading: spreadOf(longest("reading")) },
  },
  { "p99 of /healthz reading/quiet": ratioOf(p99("reading"), p99("quiet")) },
);

/** Counts of attempts and latencies of every route in every minute. Returns how many. */
function fill(path: string): number {
  const db = openForWriting(path, "bench", "bench");
  const put = db.prepare(
    "INSERT INTO counters (at, account, series, of, label, writer, n) VALUES (?, 'main', ?, ?, ?, '', ?)",
  );
  const labels = { attempts: ["delivered", "503"], delivery: ["12", "16", "20", "24"] };
  const counters = names.flatMap((name) =>
    Object.entries(labels).flatMap(([series, own]) => own.map((label) => [series, name, label])),
  );
  const last = Math.floor(Date.now() / 60_000);
  let count = 0;
  db.transaction(() => {
    for (let at = last - hours * 60; at <= last; at += 1) {
      for (const [place, counter] of counters.entries()) put.run(at, ...counter, 1 + (place % 9));
      count += counters.length;
    }
  })();
  db.close();
  return count;
}

/** Milliseconds that another client waits for `/healthz`. */
async function probe(forMs: number): Promise<number[]> {
  const took: number[] = [];
  for (const until = performance.now() + forMs; performance.now() < until; await wait(10)) {
    const startedAt = performance.now();
    await (await fetch(`http://127.0.0.1:${relay.port}/healthz`)).arrayBuffer();
    took.push(performance.now() - startedAt);
  }
  return took;
}

/** A console with a live stream, and a client that asks for the overview and for series. */
async function read(signal: AbortSignal): Promise<void> {
  const following = relay.follow("/v1/live", signal);
  while (!signal.aborted) {
    const startedAt = performance.now();
    await relay.get("/v1/overview");
    const seriesAt = performance.now();
    overviewMs.push(seriesAt - startedAt);
    await relay.get("/v1/series?name=attempts&by=route");
    seriesMs.push(performance.now() - seriesAt);
    await wait(200);
  }
  await following;
}
