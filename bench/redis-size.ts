import { eventAt } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { fillRedis } from "./redis-size/fill-redis.ts";
import type { Look } from "./redis-size/look.ts";
import { printResult, round } from "./report.ts";

const usage = `What an event, a delivery and a message take of Redis: node bench/redis-size.ts
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
const event = grown(plain.registered, plain.received, events);
const open = grown(routed.registered, routed.received, events) - event;
const delivered = grown(routed.registered, routed.delivered, events) - event;
const message = grown(plain.empty, plain.registered, messages);
const parked = grown(unknown.empty, unknown.received, events);

const figures = {
  events,
  messages,
  listpack,
  bodyBytes,
  memoryBytes: {
    event: round(event),
    openDelivery: round(open),
    delivered: round(delivered),
    registeredMessage: round(message),
    parkedEvent: round(parked),
    seenMessage: round((parked - event) * 3),
  },
  aofBytesPerEvent: {
    writtenByReceiving: round(grown(routed.registered, routed.received, events, "aofBytes")),
    writtenByDelivering: round(grown(routed.received, routed.delivered, events, "aofBytes")),
    atRest: round(routed.aofAtRest / events),
  },
  redisMicroseconds: {
    event: round(microseconds(plain.registered, plain.received)),
    eventWithDelivery: round(microseconds(routed.registered, routed.received)),
    delivering: round(microseconds(routed.received, routed.delivered)),
    parkedEvent: round(microseconds(unknown.empty, unknown.received)),
  },
  processMicroseconds: {
    receiving: round((routed.processSeconds.receiver / events) * 1e6),
    delivering: round(((routed.processSeconds.worker ?? Number.NaN) / events) * 1e6),
  },
  jobsWaiting: routed.received.jobs,
};
for (const [what, bytes] of Object.entries(figures.memoryBytes)) console.log(`${what}: ${bytes} bytes of memory`);
for (const [what, each] of Object.entries(figures.redisMicroseconds)) console.log(`${what}: ${each} µs of Redis' thread`);
printResult("redis-size", machine, figures, {
  "delivered event/body": round((event + delivered) / bodyBytes),
  "aof at rest/memory": round(routed.aofAtRest / (routed.delivered?.bytes ?? Number.NaN)),
});
