import { setTimeout as wait } from "node:timers/promises";
import { secret } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { processorSeconds, residentMiB, waitedSeconds } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { findPinning } from "./process/pin.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, round, table } from "./report.ts";
import type { MemoryUse } from "./sandbox/memory.ts";
import type { SendOrder, Sends } from "./sandbox/sender.ts";
import { startSandbox } from "./sandbox/start-sandbox.ts";

const usage = `What the sandbox does on one core, beside the relay that stores its events: node bench/sandbox.ts
  --rate <n>         sends a second, each of which makes three events (500)
  --seconds <n>      of sending at this rate (20)
  --unpaced <n>      seconds of sending as fast as it answers (10)
  --connections <n>  of the sender (32)
  --people <n>       written to, over and over (5000)
  --messages <n>     to see what one costs in memory; 0 for not at all (200000)
  --short            for CI: 1 s, half a second and 4000 messages`;

const flags = readFlags(usage, {
  rate: { type: "string" },
  seconds: { type: "string" },
  unpaced: { type: "string" },
  connections: { type: "string" },
  people: { type: "string" },
  messages: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const rate = numberFlag("rate", flags.rate, 500);
const pacedMs = 1000 * numberFlag("seconds", flags.seconds, short ? 1 : 20);
const unpacedMs = 1000 * numberFlag("unpaced", flags.unpaced, short ? 0.5 : 10);
const connections = Math.ceil(numberFlag("connections", flags.connections, 32));
const people = Math.ceil(numberFlag("people", flags.people, 5_000));
const messages =
  flags.messages === "0"
    ? 0
    : 2 * Math.ceil(numberFlag("messages", flags.messages, short ? 4_000 : 200_000) / 2);
/** Fast enough that events come in step with sends: a message's last one 60 ms after it at most. */
const speed = 1_000;
const eventsPerSend = 3;
const sampleEveryMs = 250;
const longestDrainMs = 120_000;

const machine = await lookAtMachine();
console.log(describeMachine(machine));
const pinning = findPinning();
const own = pinning?.processors.at(-1);
const others = pinning?.processors.slice(0, -1) ?? [];
const isPinned = pinning !== null && own !== undefined && others.length > 0;
console.log(
  isPinned
    ? `The sandbox has processor ${own} to itself; relay and sender have ${others.join(", ")}.`
    : `Nothing is pinned (${pinning === null ? "taskset is not on the PATH" : "there is one processor only"}): sandbox, relay and sender share what there is.`,
);
// What is started from here on inherits it.
if (isPinned) pinning.pin(process.pid, others);

await using stack = new AsyncDisposableStack();
// No routes: it proves, tracks and stores what comes.
const relay = await startRelay({ destination: "", concurrency: 1, settings: { routes: [] } });
stack.defer(() => relay.stop());
const sandbox = await startSandbox({
  webhook: `http://127.0.0.1:${relay.port}/webhooks/main`,
  secret,
  speed,
  prefix: isPinned ? pinning.prefix([own]) : [],
});
stack.defer(() => sandbox.stop());
const sender = await startChild("sandbox/sender.ts");
stack.defer(() => sender.stop());

let sentInAll = 0;
const send = async (ms: number, paced: number | null): Promise<Sends> => {
  const order: SendOrder = {
    port: sandbox.port,
    key: sandbox.key,
    templateId: sandbox.templateId,
    connections,
    ms,
    rate: paced,
    people,
  };
  const sends = (await sender.ask(order)) as Sends;
  sentInAll += sends.answered;
  return sends;
};
const stored = async () =>
  Object.values(await relay.dispositions()).reduce((sum, count) => sum + count, 0);
/** Waits until the relay has the events that the sends make, each once: no fewer, and no more. */
const check = async () => {
  const expected = sentInAll * eventsPerSend;
  const deadline = performance.now() + longestDrainMs;
  for (;;) {
    await sandbox.drained(longestDrainMs);
    const events = await stored();
    if (events === expected) return;
    // The last messages may still be in the midst of their lives.
    if (events > expected || performance.now() > deadline)
      throw new Error(`${sentInAll} sends, and ${events} events at the relay`);
    await wait(20);
  }
};
const used = () => ({
  sandbox: processorSeconds(sandbox.pid) ?? Number.NaN,
  relay: processorSeconds(relay.pid()) ?? Number.NaN,
  sandboxWaited: waitedSeconds(sandbox.pid) ?? Number.NaN,
  relayWaited: waitedSeconds(relay.pid()) ?? Number.NaN,
});
/**
 * Cores used by the sandbox and the relay meanwhile, and how much of a core they waited for because
 * other processes had it.
 */
const during = async <T>(work: () => Promise<T>) => {
  const from = performance.now();
  const before = used();
  const result = await work();
  const tookMs = performance.now() - from;
  const after = used();
  const cores = Object.fromEntries(
    Object.entries(after).map(([of, now]) => [
      of,
      round((now - before[of as keyof typeof before]) / (tookMs / 1000)),
    ]),
  );
  return { result, cores: cores as ReturnType<typeof used>, tookMs };
};

// Uncounted: what is compiled while it runs should not be measured.
await send(short ? 500 : 3_000, rate);
await check();

const backlog: number[] = [];
let sampling = true;
const samples = (async () => {
  while (sampling) {
    backlog.push(await sandbox.waiting());
    await wait(sampleEveryMs);
  }
})();
const before = await stored();
const paced = await during(() => send(pacedMs, rate));
const events = (await stored()) - before;
sampling = false;
await samples;
const backlogAtEnd = await sandbox.waiting();
await check();

const unpaced = await during(() => send(unpacedMs, null));
const unpacedAll = await during(async () => check());
const unpacedSeconds = (unpaced.tookMs + unpacedAll.tookMs) / 1000;
const resident = residentMiB(sandbox.pid);
await sandbox.stop();

const { latency, answered } = paced.result;
const figures = {
  isPinned,
  paced: {
    sendsPerSecond: round(answered / (pacedMs / 1000)),
    p50: round(latency.p50),
    p99: round(latency.p99),
    eventsPerSecond: round(events / (paced.tookMs / 1000)),
    backlog: { most: Math.max(...backlog), atEnd: backlogAtEnd },
    cores: paced.cores,
  },
  unpaced: {
    sendsPerSecond: round(unpaced.result.answered / unpaced.result.seconds),
    p50: round(unpaced.result.latency.p50),
    p99: round(unpaced.result.latency.p99),
    /** From the first send until the last event was stored. */
    eventsPerSecond: round((unpaced.result.answered * eventsPerSend) / unpacedSeconds),
    cores: unpaced.cores,
  },
  residentMiB: { sandbox: resident === null ? null : round(resident), messages: sentInAll },
  memory: messages === 0 ? null : await memory(),
};
const head = [
  "",
  "sends/s",
  "p50 ms",
  "p99 ms",
  "events/s",
  "sandbox's cores",
  "waited",
  "relay's cores",
  "waited",
];
const row = (name: string, of: typeof figures.unpaced) =>
  [
    name,
    of.sendsPerSecond,
    of.p50,
    of.p99,
    of.eventsPerSecond,
    of.cores.sandbox,
    of.cores.sandboxWaited,
    of.cores.relay,
    of.cores.relayWaited,
  ].map(String);
for (const line of [
  "",
  ...table(head, [row(`${rate}/s`, figures.paced), row("unpaced", figures.unpaced)]),
  "",
])
  console.log(line);
console.log(
  `Deliveries waiting: ${figures.paced.backlog.most} at most, ${backlogAtEnd} at the end of ${pacedMs / 1000} s; all events stored once.`,
);
if (figures.memory !== null)
  console.log(`Memory: ${figures.memory.bytesPerMessage} bytes a message, its events forgotten.`);
printResult("sandbox", machine, figures, {
  [`sends/${rate}`]: round(figures.paced.sendsPerSecond / rate),
  [`events/${rate * eventsPerSend}`]: round(figures.paced.eventsPerSecond / (rate * eventsPerSend)),
});

async function memory() {
  const child = await startChild("sandbox/memory.ts", [], 0, ["--expose-gc"]);
  try {
    const use = (await child.ask({ messages })) as MemoryUse;
    return {
      bytesPerMessage: Math.round(use.bytesPerMessage),
      heapMiB: round(use.heapMiB),
      residentMiB: round(use.residentMiB),
      messages,
    };
  } finally {
    await child.stop();
  }
}
