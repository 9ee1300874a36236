import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../test/setup/free-port.ts";
import { buildFile } from "./audit/build-file.ts";
import { wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { quantile } from "./load/measure.ts";
import type { RunResult, RunSpec } from "./load/run.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, round, spreadOf, table } from "./report.ts";

const usage = `How fast the console's data is read, and what a console does to a relay that receives: node bench/console.ts
  --events <n>          in the file (1000000)
  --rounds <n>          (12)
  --seconds <n>         measured per phase (4)
  --rate <n>            events a second offered (1000)
  --loads <n>           of each page (20)
  --short               20000 events and one round of half a second, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  seconds: { type: "string" },
  rate: { type: "string" },
  loads: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 20_000 : 1_000_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 12));
const seconds = numberFlag("seconds", flags.seconds, short ? 0.5 : 4);
const rate = numberFlag("rate", flags.rate, short ? 500 : 1000);
const loads = Math.ceil(numberFlag("loads", flags.loads, short ? 2 : 20));

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
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
await relay.start();
const load = await startChild("load.ts");
stack.defer(() => load.stop());

/** An event and a message in the middle of the file. */
const known = await lookForKnown();
const since = (days: number): string =>
  encodeURIComponent(new Date(Date.now() - days * 86_400_000).toISOString());
/** What each page asks for at once when it opens. */
const pages: Readonly<Record<string, readonly string[]>> = {
  overview: ["/v1/overview", `/v1/series?name=events&from=${since(1)}`],
  "overview, 30 days": ["/v1/overview", `/v1/series?name=events&from=${since(30)}`],
  quality: [`/v1/quality?from=${since(7)}`, `/v1/series?name=failures&from=${since(7)}`],
  "quality of a route": [`/v1/quality?from=${since(1)}&route=tracked`],
  events: ["/v1/events?limit=50"],
  "events, filtered": [
    "/v1/events?limit=50&disposition=quarantined",
    "/v1/events?limit=50&status=read&disposition=ignored",
  ],
  messages: ["/v1/messages?limit=50", "/v1/messages?limit=50&status=failed"],
  search: [`/v1/search?q=${known.wamid}`, "/v1/search?q=4242", `/v1/search?q=${known.id}`],
  deliveries: ["/v1/deliveries?limit=50&state=dead", "/v1/deliveries?limit=50&state=waiting"],
  "deliveries in groups": ["/v1/deliveries/groups"],
  event: [`/v1/events/${known.seq}`],
  message: [`/v1/explain/${known.wamid}`],
  settings: ["/v1/settings", "/v1/secrets", "/v1/listeners"],
};
const names = Object.keys(pages);
/** Milliseconds until all answers of a page are there. */
const took = new Map<string, number[]>(names.map((name) => [name, []]));
const results: Record<"quiet" | "console", RunResult[]> = { quiet: [], console: [] };
let run = 0;
let opened = 0;
// The first seconds of a process are its slowest.
await offered(seconds);
for (let each = 0; each < rounds; each += 1) {
  // Whoever comes second finds a larger file: they take turns.
  for (const phase of each % 2 === 0
    ? (["quiet", "console"] as const)
    : (["console", "quiet"] as const)) {
    const over = new AbortController();
    const looking = phase === "quiet" ? Promise.resolve() : lookOn(over.signal);
    const result = await offered(seconds);
    over.abort();
    await looking;
    results[phase].push(result);
    console.log(
      `${phase}: p50 ${result.latency.p50.toFixed(2)} ms, p99 ${result.latency.p99.toFixed(2)} ms`,
    );
  }
}

// Each page again and again, while events arrive.
const beside = { isOver: false };
const arriving = (async () => {
  while (!beside.isOver) await offered(short ? 0.5 : 10);
})();
arriving.catch(() => console.error(relay.output()));
for (let each = 0; each < loads; each += 1) for (const name of names) await open(name);
beside.isOver = true;
await arriving;

const p95 = (name: string) =>
  round(
    quantile(
      (took.get(name) ?? []).toSorted((a, b) => a - b),
      0.95,
    ),
  );
for (const line of table(
  ["page", "p95 ms"],
  names.map((name) => [name, String(p95(name))]),
))
  console.log(line);
const p99 = (phase: keyof typeof results) => results[phase].map(({ latency }) => latency.p99);
const figures = {
  events: built.events,
  rate,
  pageP95Ms: Object.fromEntries(names.map((name) => [name, p95(name)])),
  p99Ms: { quiet: spreadOf(p99("quiet")), console: spreadOf(p99("console")) },
};
printResult("console", machine, figures, {
  [`p99 at ${rate}/s console/quiet`]: ratioOf(p99("console"), p99("quiet")),
});

async function lookForKnown(): Promise<{ seq: number; id: string; wamid: string }> {
  const { data } = (await relay.get(
    `/v1/events?limit=20&before=${Math.floor(events / 2)}&disposition=routed`,
  )) as {
    data: { seq: number; id: string; subject: { key: string } | null }[];
  };
  const [first] = data;
  if (first?.subject == null) throw new Error("no event about a message was found");
  // The token has no scope for personal data, so the wamid is masked, and found by that.
  return { seq: first.seq, id: first.id, wamid: encodeURIComponent(first.subject.key) };
}

async function open(name: string): Promise<void> {
  const startedAt = performance.now();
  await Promise.all((pages[name] ?? []).map((path) => relay.get(path)));
  took.get(name)?.push(performance.now() - startedAt);
}

/** A console: one live stream, and each second another page. */
async function lookOn(signal: AbortSignal): Promise<void> {
  const following = relay.follow("/v1/live?tail=true", signal);
  for (; !signal.aborted; opened += 1) {
    await open(names[opened % names.length] as string);
    await wait(1000, undefined, { signal }).catch(() => {});
  }
  await following;
}

async function offered(measuredSeconds: number): Promise<RunResult> {
  run += 1;
  const warmupSeconds = short ? 0.1 : 0.5;
  const set = { run, count: Math.ceil(rate * (measuredSeconds + warmupSeconds)) };
  await load.ask({ prepare: set });
  await relay.register(wamidsOf(set));
  const spec: RunSpec = {
    port: relay.port,
    limit: set.count,
    connections: 64,
    warmupMs: warmupSeconds * 1000,
    measureMs: measuredSeconds * 1000,
    rate,
    sleeps: true,
    serverPid: relay.pid(),
    keepSentAt: false,
  };
  const result = (await load.ask({ run: spec })) as RunResult;
  if (result.statuses["200"] !== result.sent)
    throw new Error(`of ${result.sent} events: ${JSON.stringify(result.statuses)}`);
  return result;
}
