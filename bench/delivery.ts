import { type Delivered, measureDelivery } from "./delivery/measure-delivery.ts";
import {
  type DeliverySide,
  type DeliverySideName,
  deliverySideNames,
  startDeliverySide,
} from "./delivery/sides.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { printResult, ratioOf, type Spread, spreadOf, table } from "./report.ts";

const usage = `From received to delivered to a URL, against a bare relay: node bench/delivery.ts
  --events <n>          per side and round, as fast as they go (60000)
  --rounds <n>          (3)
  --connections <n>     of the load, and of the deliveries (64)
  --rate <n>            events a second for the time from sent to delivered (1000)
  --only <names>        of ${deliverySideNames.join(", ")} (comma between)
  --short               one round of 1000 events, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  connections: { type: "string" },
  rate: { type: "string" },
  only: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 1000 : 60_000));
const rounds = numberFlag("rounds", flags.rounds, short ? 1 : 3);
const connections = numberFlag("connections", flags.connections, 64);
const rate = numberFlag("rate", flags.rate, 1000);
const pacedSeconds = short ? 0.5 : 5;
const names = deliverySideNames.filter(
  (name) => flags.only === undefined || flags.only.split(",").includes(name),
);
if (names.length === 0) {
  console.error(`--only knows ${deliverySideNames.join(", ")}`);
  process.exit(2);
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());
const sides: DeliverySide[] = [];
for (const name of names) sides.push(await startDeliverySide(name, connections, stack));

const fast = new Map<DeliverySideName, Delivered[]>(names.map((name) => [name, []]));
const paced = new Map<DeliverySideName, Delivered[]>(names.map((name) => [name, []]));

// A first, uncounted round: what is compiled while it runs should not be measured.
await runRound(0, { run: 0, count: Math.ceil(events / 10) }, null, null);
for (let round = 0; round < rounds; round += 1) {
  await runRound(round, { run: 1 + round, count: events }, null, fast);
  // A second at this rate, uncounted: the log of the flood before it is written into the file
  // meanwhile.
  if (!short) await runRound(round, { run: 501 + round, count: rate }, rate, null);
  await runRound(round, { run: 1001 + round, count: Math.ceil(rate * pacedSeconds) }, rate, paced);
}

const figures = Object.fromEntries(
  names.map((name) => [name, figuresOf(fast.get(name) ?? [], paced.get(name) ?? [])]),
);
const rows = names.map((name) => {
  const { perSecond, p50, p99, repeats } = figures[name] as SideFigures;
  return [
    name,
    `${perSecond.median}`,
    `${perSecond.min}–${perSecond.max}`,
    p50.median.toFixed(2),
    p99.median.toFixed(2),
    `${repeats}`,
  ];
});
const head = ["", "delivered/s", "spread", "p50 ms", "p99 ms", "repeats"];
for (const line of [
  "",
  `Sustained; p50 and p99 from sent to delivered, at ${rate}/s`,
  ...table(head, rows),
  "",
])
  console.log(line);
printResult("delivery", machine, figures, ratios());

interface SideFigures {
  readonly perSecond: Spread;
  readonly p50: Spread;
  readonly p99: Spread;
  /** Deliveries that came more than once. */
  readonly repeats: number;
}

async function runRound(
  round: number,
  set: { run: number; count: number },
  offered: number | null,
  results: Map<DeliverySideName, Delivered[]> | null,
): Promise<void> {
  await load.ask({ prepare: set });
  for (let place = 0; place < sides.length; place += 1) {
    const side = sides[(place + round) % sides.length] as DeliverySide;
    const delivered = await measureDelivery(load, side, set, { connections, rate: offered });
    if (results === null) continue;
    results.get(side.name)?.push(delivered);
    const { perSecond, latency } = delivered;
    console.log(
      `${offered === null ? "sustained" : `${offered}/s offered`}, round ${round + 1}: ${side.name} ${Math.round(perSecond)} delivered/s, p99 ${latency.p99.toFixed(2)} ms, all ${set.count} delivered`,
    );
  }
}

function figuresOf(sustained: readonly Delivered[], offered: readonly Delivered[]): SideFigures {
  return {
    perSecond: spreadOf(sustained.map((each) => each.perSecond)),
    p50: spreadOf(offered.map((each) => each.latency.p50)),
    p99: spreadOf(offered.map((each) => each.latency.p99)),
    repeats: [...sustained, ...offered].reduce((sum, each) => sum + each.repeats, 0),
  };
}

function ratios(): Record<string, Spread> {
  const [relay, bare] = [fast.get("relay"), fast.get("bare")];
  if (relay === undefined || bare === undefined) return {};
  const p99 = (each: Delivered) => each.latency.p99;
  const perSecond = (each: Delivered) => each.perSecond;
  return {
    "relay/bare": ratioOf(relay.map(perSecond), bare.map(perSecond)),
    [`p99 at ${rate}/s relay/bare`]: ratioOf(
      (paced.get("relay") ?? []).map(p99),
      (paced.get("bare") ?? []).map(p99),
    ),
  };
}
