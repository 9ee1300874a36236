import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { floodRelay } from "./parking/relay-flood.ts";
import { floodStore } from "./parking/store-flood.ts";
import { printResult, round } from "./report.ts";

const usage = `A campaign's flood of events whose wamids nobody registered: node bench/flood.ts
  --events <n>          of the flood into the store (1000000)
  --seconds <n>         measured per phase of the relay beside a flood (5)
  --rounds <n>          (3)
  --connections <n>     (64)
  --rate <n>            events a second in the open loop (2000)
  --store-only          without the relay
  --short               10000 events and one round of a fifth of a second, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  seconds: { type: "string" },
  rounds: { type: "string" },
  connections: { type: "string" },
  rate: { type: "string" },
  "store-only": { type: "boolean" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 10_000 : 1_000_000));
const options = {
  seconds: numberFlag("seconds", flags.seconds, short ? 0.2 : 5),
  warmupSeconds: short ? 0.1 : 0.5,
  rounds: Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 3)),
  connections: numberFlag("connections", flags.connections, 64),
  rate: numberFlag("rate", flags.rate, short ? 500 : 2000),
  say: console.log,
};

const machine = await lookAtMachine();
console.log(describeMachine(machine));
const relay = flags["store-only"] === true ? null : await floodRelay(options);
const store = await floodStore(events, console.log);
const { parked, afterRetention } = store.bytesPerEvent;
printResult(
  "flood",
  machine,
  { store, ...(relay === null ? {} : { relay: relay.figures }) },
  {
    "disk parked/body": round(parked.file / store.bodyBytes),
    "disk after retention/parked": round(afterRetention.file / parked.file),
    ...relay?.ratios,
  },
);
