import { chromium } from "playwright-core";
import { findChromium } from "../test/setup/find-program.ts";
import { freePort } from "../test/setup/free-port.ts";
import { buildFile } from "./audit/build-file.ts";
import { wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { quantile } from "./load/measure.ts";
import type { RunResult, RunSpec } from "./load/run.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { benchToken, startRelay } from "./process/start-relay.ts";
import { printResult, round, table } from "./report.ts";

const usage = `How long the console's views take in Chromium, and how it follows a burst: node bench/views.ts

"npm run build:console" comes first.

  --events <n>          in the file (300000)
  --loads <n>           of each view (20)
  --burst <n>           events at once (1000)
  --short               20000 events, two loads of each view, a burst of 100, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  loads: { type: "string" },
  burst: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 20_000 : 300_000));
const loads = Math.ceil(numberFlag("loads", flags.loads, short ? 2 : 20));
const burst = Math.ceil(numberFlag("burst", flags.burst, short ? 100 : 1000));

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

const browser = await chromium.launch({
  executablePath: findChromium(),
  args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  timeout: 150_000,
});
stack.defer(() => browser.close());
const page = await browser.newPage({
  baseURL: `http://127.0.0.1:${relay.port}`,
  viewport: { width: 1280, height: 900 },
  bypassCSP: true,
});
page.setDefaultTimeout(150_000);
await page.goto("/console/");
await page.getByLabel("Token").fill(benchToken);
await page.getByRole("button", { name: "Sign in" }).click();
await page.getByText("● live").waitFor();

/** An event and its message in the middle of the file. */
const { data } = (await relay.get(
  `/v1/events?limit=20&before=${Math.floor(events / 2)}&disposition=routed`,
)) as {
  data: { seq: number; subject: { key: string } | null }[];
};
const known = data.find(({ subject }) => subject !== null);
if (known?.subject == null) throw new Error("no event about a message was found");
const views: Readonly<Record<string, string>> = {
  overview: "",
  "overview, 30 days": "?period=30d",
  quality: "quality",
  "quality of a route": "quality?route=tracked",
  events: "events",
  "events, filtered": "events?disposition=quarantined",
  event: `events/${known.seq}`,
  messages: "messages",
  message: `messages/${encodeURIComponent(known.subject.key)}`,
  "waiting deliveries": "deliveries?state=waiting",
  "dead deliveries": "deliveries?state=dead",
  settings: "settings",
};

/** Milliseconds from navigation until nothing loads any more and nothing is hidden. */
const took = new Map<string, number[]>();
for (const name of Array.from({ length: loads }, () => Object.keys(views)).flat()) {
  const startedAt = performance.now();
  await page.goto(`/console/${views[name]}`, { waitUntil: "commit" });
  await page.waitForFunction(
    'document.querySelector("h1") !== null && document.querySelector(".loading") === null',
    null,
    {
      polling: "raf",
    },
  );
  took.set(name, [...(took.get(name) ?? []), performance.now() - startedAt]);
}
const p95 = (name: string) =>
  round(
    quantile(
      (took.get(name) ?? []).toSorted((a, b) => a - b),
      0.95,
    ),
  );
for (const line of table(
  ["view", "p95 ms"],
  Object.keys(views).map((name) => [name, String(p95(name))]),
))
  console.log(line);

// Tasks of the page over 50 ms while it follows a burst of events.
const load = await startChild("load.ts");
stack.defer(() => load.stop());
const set = { run: 1, count: burst };
await load.ask({ prepare: set });
await relay.register(wamidsOf(set));
await page.goto("/console/events");
await page.getByText("● live").waitFor();
await page.evaluate(`
  window.longestTask = 0;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) longestTask = Math.max(longestTask, duration);
  }).observe({ type: "longtask" })`);
const newest = async () => Number(await page.locator("tbody tr td").first().textContent());
const before = await newest();
const spec: RunSpec = {
  port: relay.port,
  limit: burst,
  connections: 64,
  warmupMs: 0,
  measureMs: null,
  rate: null,
  serverPid: relay.pid(),
  keepSentAt: false,
};
const { statuses } = (await load.ask({ run: spec })) as RunResult;
if (statuses["200"] !== burst) throw new Error(`of ${burst} events: ${JSON.stringify(statuses)}`);
await page.waitForFunction(
  `Number(document.querySelector("tbody tr td")?.textContent) >= ${before + burst}`,
);
const ms = await page.evaluate<number>("longestTask");
console.log(
  `longest task while ${burst} events come: ${ms === 0 ? "under 50" : Math.round(ms)} ms`,
);

const figures = {
  events: built.events,
  viewP95Ms: Object.fromEntries(Object.keys(views).map((name) => [name, p95(name)])),
  longestTaskMs: ms,
};
printResult("views", machine, figures, {});
