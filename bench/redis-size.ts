import { eventAt } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { fillRedis } from "./redis-size/fill-redis.ts";
import type { Look } from "./redis-size/look.ts";
import { printResult, round } from "./report.ts";

const usage = `What an event takes of Redis when it is accepted, planned and delivered, and a message: node bench/redis-size.ts
  --events <n>          three to a message (60000)
  --connections <n>     (64)
  --listpack <n>        zset-max-listpack-value of Redis (128, as in compose.yaml; Redis' own default is 64)
  --short               1500 events, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  connections: { type: "string" },
  listpack: { type: "string" },
  short: { type: "boolean" },
});
const events = Math.ceil(numberFlag("events", flags.events, flags.short === true ? 1500 : 60_000) / 1500) * 1500;
const messages = events / 3;
const connections = numberFlag("connections", flags.connections, 64);
const listpack = numberFlag("listpack", flags.listpack, 128);

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());
const filling = { load, connections, listpack };

const plain = await fillRedis({ ...filling, set: { run: 0, count: events }, isRegistered: true, isRouted: false, isDelivered: false });
const routed = await fillRedis({ ...filling, set: { run: 1, count: events }, isRegistered: true, isRouted: true, isDelivered: true });
const unknown = await fillRedis({ ...filling, set: { run: 2, count: events }, isRegistered: false, isRouted: true, isDelivered: false });

const grown = (from: Look, to: Look | null, by: number, what: "bytes" | "aofBytes" = "bytes") =>
  ((to?.[what] ?? Number.NaN) - from[what]) / by;
const microseconds = (from: Look, to: Look | null) => (((to?.cpuSeconds ?? Number.NaN) - from.cpuSeconds) / events) * 1e6;

const bodyBytes = eventAt(0, 0).body.length;
const event = grown(plain.registered, plain.planned, events);
const open = grown(routed.registered, routed.planned, events) - event;
const delivered = grown(routed.registered, routed.delivered, events) - event;
const message = grown(plain.empty, plain.registered, messages);
const parked = grown(unknown.empty, unknown.planned, events);
const processMicros = (seconds: number | null) => round(((seconds ?? Number.NaN) / events) * 1e6);

const figures = {
  events,
  messages,
  listpack,
  bodyBytes,
  memoryBytes: {
    acceptedEvent: round(grown(routed.registered, routed.accepted, events)),
    event: round(event),
    openDelivery: round(open),
    delivered: round(delivered),
    registeredMessage: round(message),
    parkedEvent: round(parked),
    seenMessage: round((parked - event) * 3),
  },
  aofBytesPerEvent: {
    writtenByAccepting: round(grown(routed.registered, routed.accepted, events, "aofBytes")),
    writtenByPlanning: round(grown(routed.accepted, routed.planned, events, "aofBytes")),
    writtenByDelivering: round(grown(routed.planned, routed.delivered, events, "aofBytes")),
    atRest: round(routed.aofAtRest / events),
  },
  redisMicroseconds: {
    accepting: round(microseconds(routed.registered, routed.accepted)),
    planning: round(microseconds(routed.accepted, routed.planned)),
    delivering: round(microseconds(routed.planned, routed.delivered)),
    planningForNoRoute: round(microseconds(plain.accepted, plain.planned)),
    parking: round(microseconds(unknown.accepted, unknown.planned)),
  },
  processMicroseconds: {
    accepting: processMicros(routed.processSeconds.accepting),
    planning: processMicros(routed.processSeconds.planning),
    delivering: processMicros(routed.processSeconds.delivering),
  },
  jobsWaiting: routed.accepted.jobs,
};
for (const [what, bytes] of Object.entries(figures.memoryBytes)) console.log(`${what}: ${bytes} bytes of memory`);
for (const [what, each] of Object.entries(figures.redisMicroseconds)) console.log(`${what}: ${each} µs of Redis' thread`);
printResult("redis-size", machine, figures, {
  "delivered event/body": round((event + delivered) / bodyBytes),
  "aof at rest/memory": round(routed.aofAtRest / (routed.delivered?.bytes ?? Number.NaN)),
});
