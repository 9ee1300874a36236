import { startRedis } from "../test/setup/redis.ts";
import { type Delivered, measureDelivery } from "./delivery/measure-delivery.ts";
import { wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, spreadOf, table } from "./report.ts";
import { type Drained, type DrainSpec, drain } from "./scale/drain.ts";
import { redisStorage } from "./scale/fill-sides.ts";

const usage = `Workers of the distributed engine, one against a hand-written BullMQ worker, and several: node bench/scale.ts
  --events <n>          waiting, per drain (40000)
  --rounds <n>          (3)
  --concurrency <n>     deliveries in flight of a worker (64)
  --workers <list>      how many at once (1,2,3; comma between)
  --appendfsync <word>  of both sides' Redis: always, everysec or no (everysec)
  --rate <n>            events a second through a receiver and a worker (1000)
  --short               one round of 600 events, and several workers only on the slow destination, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  concurrency: { type: "string" },
  workers: { type: "string" },
  appendfsync: { type: "string" },
  rate: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 600 : 40_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 3));
const concurrency = Math.ceil(numberFlag("concurrency", flags.concurrency, 64));
const workerCounts = (flags.workers ?? (short ? "2" : "1,2,3")).split(",").map((text) => Math.ceil(numberFlag("workers", text, 1)));
const rate = numberFlag("rate", flags.rate, 1000);
const appendonly = syncWord(flags.appendfsync ?? "everysec");
const pacedSeconds = short ? 0.5 : 10;
/** Of a destination that takes its time: then connections are what a worker has too few of. */
const slow = { delayMs: 20, concurrency: 16 };
const perSlowWorker = (slow.concurrency * 1000) / slow.delayMs;

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());

const drains = new Map<string, Drained[]>();
await load.ask({ prepare: { run: 1, count: events } });
for (let each = 0; each < rounds; each += 1) {
  const sides = ["relay", "relay+planning", "bullmq"] as const;
  for (const side of each % 2 === 0 ? sides : sides.toReversed())
    await measure(`1 ${side}`, { side, workers: 1, concurrency, delayMs: 0 }, events);
  for (const workers of workerCounts.filter((count) => count > 1 && !short)) {
    await measure(`${workers} relay`, { side: "relay", workers, concurrency, delayMs: 0 }, events);
  }
}
// As long as the fast ones take, whatever the number of workers.
const slowEvents = Math.ceil(perSlowWorker * (short ? 0.3 : 8));
await load.ask({ prepare: { run: 1, count: slowEvents * Math.max(...workerCounts) } });
for (let each = 0; each < rounds; each += 1) {
  for (const workers of workerCounts) await measure(slowName(workers), { side: "relay", workers, ...slow }, slowEvents * workers);
}
const paced: Delivered[] = [];
for (let each = 0; each < rounds; each += 1) paced.push(await offered(2 + each));

const rows = [...drains].map(([name, each]) => {
  const { perSecond, warmPerSecond, cores, micros, repeats } = figuresOf(each);
  const part = (of: typeof cores) => [`${of.workers.median}`, `${of.redis.median}`, `${of.sink.median}`];
  return [
    name,
    `${perSecond.median}`,
    `${warmPerSecond.median}`,
    `${warmPerSecond.min}–${warmPerSecond.max}`,
    ...part(cores),
    ...part(micros),
    `${repeats}`,
  ];
});
const head = ["workers", "all/s", "warm/s", "spread", "cores: workers", "Redis", "sink", "µs each: workers", "Redis", "sink", "repeats"];
for (const line of ["", `Delivered a second, ${concurrency} in flight per worker`, ...table(head, rows), ""]) console.log(line);

const warmOf = (name: string) => (drains.get(name) ?? []).map((each) => each.warmPerSecond);
const allOf = (name: string) => (drains.get(name) ?? []).map((each) => each.perSecond);
const figures = {
  appendfsync: appendonly,
  drained: Object.fromEntries([...drains].map(([name, each]) => [name, figuresOf(each)])),
  paced: {
    perSecond: rate,
    p50: spreadOf(paced.map(({ latency }) => latency.p50)),
    p99: spreadOf(paced.map(({ latency }) => latency.p99)),
    max: spreadOf(paced.map(({ latency }) => latency.max)),
    repeats: paced.reduce((sum, { repeats }) => sum + repeats, 0),
  },
};
const severals = [(count: number) => `${count} relay`, slowName];
const scaled = severals.flatMap((nameOf) =>
  workerCounts
    .filter((count) => count > 1 && drains.has(nameOf(count)) && drains.has(nameOf(1)))
    .map((count) => [`${nameOf(count)}/1`, ratioOf(warmOf(nameOf(count)), warmOf(nameOf(1)))]),
);
printResult("scale", machine, figures, {
  "relay/bullmq": ratioOf(allOf("1 relay"), allOf("1 bullmq")),
  "relay/bullmq warm": ratioOf(warmOf("1 relay"), warmOf("1 bullmq")),
  "relay+planning/bullmq": ratioOf(allOf("1 relay+planning"), allOf("1 bullmq")),
  ...Object.fromEntries(scaled),
});

function slowName(workers: number): string {
  return `${workers} relay, ${slow.delayMs} ms`;
}

async function measure(name: string, spec: Omit<DrainSpec, "appendonly">, count: number): Promise<void> {
  const drained = await drain({ ...spec, appendonly }, load, { run: 1, count });
  drains.set(name, [...(drains.get(name) ?? []), drained]);
  const { perSecond, warmPerSecond, cores, micros } = drained;
  console.log(
    `${name}: ${Math.round(perSecond)} delivered/s, warm ${Math.round(warmPerSecond)}/s; cores: workers ${cores.workers.toFixed(2)}, Redis ${cores.redis.toFixed(2)}, sink ${cores.sink.toFixed(2)}; µs each: ${Math.round(micros.workers)}, ${Math.round(micros.redis)}, ${Math.round(micros.sink)}`,
  );
}

function figuresOf(each: readonly Drained[]) {
  const part = (of: (drained: Drained) => Drained["cores"]) => ({
    workers: spreadOf(each.map((drained) => of(drained).workers)),
    redis: spreadOf(each.map((drained) => of(drained).redis)),
    sink: spreadOf(each.map((drained) => of(drained).sink)),
  });
  return {
    perSecond: spreadOf(each.map(({ perSecond }) => perSecond)),
    warmPerSecond: spreadOf(each.map(({ warmPerSecond }) => warmPerSecond)),
    cores: part(({ cores }) => cores),
    micros: part(({ micros }) => micros),
    repeats: each.reduce((sum, { repeats }) => sum + repeats, 0),
  };
}

/** From sent to delivered through a receiver and a worker, at the rate. */
async function offered(run: number): Promise<Delivered> {
  await using parts = new AsyncDisposableStack();
  const sink = await startChild("servers/sink.ts");
  parts.defer(() => sink.stop());
  const redis = await startRedis({ appendonly });
  parts.defer(() => redis.stop());
  const both = { destination: `http://127.0.0.1:${sink.port}/events`, concurrency, settings: redisStorage(redis) };
  const receiver = await startRelay({ ...both, role: "receive" });
  parts.defer(() => receiver.stop());
  const worker = await startRelay({ ...both, role: "work" });
  parts.defer(() => worker.stop());
  const side = {
    name: "relay" as const,
    port: receiver.port,
    pid: receiver.pid(),
    sink,
    expect: (set: { run: number; count: number }) => receiver.register(wamidsOf(set)),
  };
  // Uncounted at first: what is compiled while it runs should not be measured.
  for (const set of [
    { run: 1000 + run, count: Math.ceil(rate * Math.min(1, pacedSeconds)) },
    { run, count: Math.ceil(rate * pacedSeconds) },
  ]) {
    await load.ask({ prepare: set });
    const delivered = await measureDelivery(load, side, set, { connections: concurrency, rate });
    if (set.run !== run) continue;
    const { p50, p99, max } = delivered.latency;
    console.log(`${rate}/s offered: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms, at most ${max.toFixed(1)} ms`);
    return delivered;
  }
  throw new Error("nothing was measured");
}

function syncWord(word: string): "always" | "everysec" | "no" {
  if (word === "always" || word === "everysec" || word === "no") return word;
  console.error("--appendfsync is always, everysec or no");
  process.exit(2);
}
