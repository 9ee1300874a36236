import { setTimeout as wait } from "node:timers/promises";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { freePort } from "../test/setup/free-port.ts";
import { startRedis } from "../test/setup/redis.ts";
import { fill } from "./backlog/fill.ts";
import { eventAt } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { processorSeconds } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, round, spreadOf } from "./report.ts";

const usage = `What waits for a queue and a stream, once their Redis is there, against a loop of addBulk: node bench/queues.ts
  --deliveries <n>      waiting for each (20000)
  --rounds <n>          of the loop (3)
  --short               4000 deliveries, for CI`;

const flags = readFlags(usage, {
  deliveries: { type: "string" },
  rounds: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const deliveries = Math.ceil(numberFlag("deliveries", flags.deliveries, short ? 4000 : 20_000));
const rounds = numberFlag("rounds", flags.rounds, 3);
const perBulk = 250;
const longestStallMs = 60_000;

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());

/** Of each delivery or job: how many a second, and microseconds of its own process' core. */
interface Rate {
  readonly perSecond: number;
  readonly coreMicros: number;
}

const queueRate = await drainTo("queue", "bull:bench:wait", (redis) =>
  redis.llen("bull:bench:wait"),
);
const streamRate = await drainTo("stream", "bench", (redis) => redis.xlen("bench"));
const loops: Rate[] = [];
for (let each = 0; each < rounds; each += 1) loops.push(await bareLoop());

const figures = {
  deliveries,
  queue: { perSecond: round(queueRate.perSecond), coreMicros: round(queueRate.coreMicros) },
  stream: { perSecond: round(streamRate.perSecond), coreMicros: round(streamRate.coreMicros) },
  addBulk: {
    perSecond: spreadOf(loops.map(({ perSecond }) => perSecond)),
    coreMicros: spreadOf(loops.map(({ coreMicros }) => coreMicros)),
  },
};
const against = ({ perSecond }: Rate) =>
  ratioOf(
    loops.map(() => perSecond),
    loops.map((each) => each.perSecond),
  );
printResult("queues", machine, figures, {
  "queue/addBulk": against(queueRate),
  "stream/addBulk": against(streamRate),
});

/**
 * Fills the relay while there is no Redis, starts Redis, and gives deliveries a second from the
 * first there to the last.
 */
async function drainTo(
  kind: "queue" | "stream",
  key: string,
  count: (redis: Redis) => Promise<number>,
): Promise<Rate> {
  const port = await freePort();
  const to = {
    redis: `redis://127.0.0.1:${port}`,
    breaker: { pause: "500ms", longest: "500ms" },
    [kind]: "bench",
  };
  const routes = [{ name: "tracked", match: { events: ["message.*"], tracked: true }, to }];
  const relay = await startRelay({ destination: "", concurrency: 0, settings: { routes } });
  try {
    await fill({ relay, load, deliveries, connections: 64, say: () => {} });
    const server = await startRedis({ port });
    const redis = new Redis(server.url);
    try {
      let startedAt: number | null = null;
      let coreAt = 0;
      let first = 0;
      let seen = 0;
      for (let movedAt = performance.now(); ; await wait(5)) {
        const there = await count(redis);
        if (there > seen) movedAt = performance.now();
        if (there > 0 && startedAt === null)
          [startedAt, first, coreAt] = [performance.now(), there, coreSeconds(relay.pid())];
        seen = there;
        if (there >= deliveries && startedAt !== null) {
          const perSecond = (there - first) / ((performance.now() - startedAt) / 1000);
          const coreMicros = ((coreSeconds(relay.pid()) - coreAt) / (there - first)) * 1e6;
          console.log(
            `${kind}: ${Math.round(perSecond)} delivered/s, ${Math.round(coreMicros)} µs of a core each, ${there} in ${key}`,
          );
          return { perSecond, coreMicros };
        }
        if (performance.now() - movedAt > longestStallMs)
          throw new Error(`${kind}: ${there} of ${deliveries} came`);
      }
    } finally {
      redis.disconnect();
      await server.stop();
    }
  } finally {
    await relay.stop();
  }
}

/**
 * The fastest that BullMQ offers by hand, with the same data: nothing is stored before, and one
 * answer is waited for per bulk.
 */
async function bareLoop(): Promise<Rate> {
  const server = await startRedis();
  const connection = new Redis(server.url, { maxRetriesPerRequest: null });
  const queue = new Queue("bare", { connection });
  try {
    await queue.waitUntilReady();
    const startedAt = performance.now();
    const coreAt = coreSeconds(process.pid);
    for (let from = 0; from < deliveries; from += perBulk) {
      await queue.addBulk(
        Array.from({ length: Math.min(perBulk, deliveries - from) }, (_, at) => jobOf(from + at)),
      );
    }
    const perSecond = deliveries / ((performance.now() - startedAt) / 1000);
    if ((await connection.llen("bull:bare:wait")) !== deliveries)
      throw new Error("the loop lost jobs");
    const coreMicros = ((coreSeconds(process.pid) - coreAt) / deliveries) * 1e6;
    console.log(
      `addBulk(${perBulk}): ${Math.round(perSecond)}/s, ${Math.round(coreMicros)} µs of a core each`,
    );
    return { perSecond, coreMicros };
  } finally {
    await queue.close();
    connection.disconnect();
    await server.stop();
  }
}

function coreSeconds(pid: number): number {
  return processorSeconds(pid) ?? Number.NaN;
}

function jobOf(sequence: number) {
  const { id, body } = eventAt(0, sequence);
  const deliveryId = `dlv_${id.replaceAll("-", "")}_000000000000`;
  const data = {
    deliveryId,
    event: "message.status",
    eventId: id,
    attempt: 1,
    replay: false,
    contentType: "application/json",
  };
  return {
    name: "message.status",
    data: { ...data, body: body.toString(), encoding: "utf8" },
    opts: { jobId: deliveryId },
  };
}
