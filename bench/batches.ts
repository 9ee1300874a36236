import { createHmac } from "node:crypto";
import { Pool } from "undici";
import { startPostgres } from "../test/setup/postgres.ts";
import { measureYardstick } from "./batches/yardstick.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { familySeconds, latencyOf, processorSeconds } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, spreadOf, table } from "./report.ts";

const usage = `Statuses of Meta's in requests of 1, 10, 100 and 1,000: node bench/batches.ts
  --items <n>     per size and round (20000)
  --rounds <n>    (5)
  --postgres      also on PostgreSQL
  --short         one round of 2,000, for CI`;

const flags = readFlags(usage, {
  items: { type: "string" },
  rounds: { type: "string" },
  postgres: { type: "boolean" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const items = Math.ceil(numberFlag("items", flags.items, short ? 2_000 : 20_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 5));
const secret = "an app secret of Meta";
const sizes = [1, 10, 100, 1_000] as const;
/** Items in flight at once, whatever the size of their requests. */
const inFlight = 100;

interface Measured {
  readonly perSecond: number;
  /** Microseconds of processor time for an item, of the relay and its database. */
  readonly micros: number;
  readonly p50: number;
  readonly p99: number;
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));
const names = ["sqlite", ...(flags.postgres === true ? (["postgres"] as const) : [])] as const;
const measured = new Map<string, Measured[]>();
/** Milliseconds for a thousand. */
const yardsticks: number[] = [];
let posted = 0;

for (let round = 0; round < rounds; round += 1) {
  // It writes to indexes of about the relay's size, whose requests of 1,000 come last and first in
  // turn.
  yardsticks.push(measureYardstick(items, Math.ceil(items / 1_000)));
  for (const name of names) {
    await using parts = new AsyncDisposableStack();
    const sink = await startChild("servers/sink.ts");
    parts.defer(() => sink.stop());
    const server = name === "postgres" ? await startPostgres({ durable: true, tcp: true }) : null;
    if (server !== null) parts.defer(() => server.stop());
    const relay = await startRelay({
      destination: `http://127.0.0.1:${sink.port}/events`,
      concurrency: 64,
      settings: {
        ...(server === null ? {} : { storage: { driver: "postgres", url: server.url } }),
        sources: { wa: { format: "meta", signature: { secrets: [secret] } } },
      },
    });
    parts.defer(() => relay.stop());
    const cost = () =>
      (processorSeconds(relay.pid()) ?? Number.NaN) +
      (server === null ? 0 : familySeconds(server.pid));
    const post = (size: number) => postAll(relay.port, size, cost);
    await post(100);
    for (const size of round % 2 === 0 ? sizes : sizes.toReversed()) {
      const key = `${name} ${size}`;
      measured.set(key, [...(measured.get(key) ?? []), await post(size)]);
    }
    for (const [key, figure] of await postBeside(relay.port, cost))
      measured.set(`${name} ${key}`, [...(measured.get(`${name} ${key}`) ?? []), figure]);
  }
}

async function postAll(port: number, size: number, cost: () => number): Promise<Measured> {
  const bodies = Array.from({ length: Math.ceil(items / size) }, () => bodyOf(size));
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: Math.max(1, inFlight / size) });
  const times = new Float64Array(bodies.length);
  let next = 0;
  const before = cost();
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: Math.max(1, inFlight / size) }, async () => {
      for (let at = next++; at < bodies.length; at = next++) {
        const { body, headers } = bodies[at] as ReturnType<typeof bodyOf>;
        const sentAt = performance.now();
        const answer = await pool.request({ path: "/webhooks/wa", method: "POST", headers, body });
        const { events } = (await answer.body.json()) as { events?: number };
        if (answer.statusCode !== 200 || events !== size)
          throw new Error(
            `a request of ${size} was answered ${answer.statusCode} with ${events} events`,
          );
        times[at] = performance.now() - sentAt;
      }
    }),
  );
  const tookMs = performance.now() - startedAt;
  const micros = ((cost() - before) / (bodies.length * size)) * 1e6;
  await pool.close();
  const { p50, p99 } = latencyOf(times);
  return { perSecond: (bodies.length * size * 1_000) / tookMs, micros, p50, p99 };
}

/**
 * Requests of 1,000 one after the other, and beside them another sender's requests of one, one
 * after the other.
 */
async function postBeside(port: number, cost: () => number): Promise<[string, Measured][]> {
  const large = Array.from({ length: Math.ceil(items / 1_000) }, () => bodyOf(1_000));
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: 2 });
  const post = async ({ body, headers }: ReturnType<typeof bodyOf>): Promise<number> => {
    const sentAt = performance.now();
    const answer = await pool.request({ path: "/webhooks/wa", method: "POST", headers, body });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`a request was answered ${answer.statusCode}`);
    return performance.now() - sentAt;
  };
  const times: { large: number[]; single: number[] } = { large: [], single: [] };
  let isDone = false;
  const before = cost();
  const startedAt = performance.now();
  const others = (async () => {
    while (!isDone) times.single.push(await post(bodyOf(1)));
  })();
  for (const body of large) times.large.push(await post(body));
  isDone = true;
  await others;
  await pool.close();
  const tookMs = performance.now() - startedAt;
  const stored = large.length * 1_000 + times.single.length;
  const both = { perSecond: (stored * 1_000) / tookMs, micros: ((cost() - before) / stored) * 1e6 };
  return (["large", "single"] as const).map((of) => {
    const { p50, p99 } = latencyOf(Float64Array.from(times[of]));
    return [`${of === "large" ? "1000" : "1"} beside the other`, { ...both, p50, p99 }];
  });
}

function bodyOf(size: number) {
  const statuses = Array.from({ length: size }, () => ({
    id: `wamid.HBgLMTY1MDU1NTEyMzQVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA${(posted++).toString(36)}`,
    status: "sent",
    timestamp: "1750263773",
    recipient_id: "16505551234",
    pricing: { billable: true, pricing_model: "PMP", type: "regular", category: "utility" },
  }));
  const value = {
    messaging_product: "whatsapp",
    metadata: { display_phone_number: "15550783881", phone_number_id: "106540352242922" },
    statuses,
  };
  const entry = [{ id: "102290129340398", changes: [{ value, field: "messages" }] }];
  const body = Buffer.from(JSON.stringify({ object: "whatsapp_business_account", entry }));
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  return {
    body,
    headers: { "content-type": "application/json", "x-hub-signature-256": `sha256=${signature}` },
  };
}

const of = (key: string, figure: keyof Measured) =>
  (measured.get(key) ?? []).map((each) => each[figure]);
const figures = Object.fromEntries(
  [...measured.keys()].map((key) => [
    key,
    {
      perSecond: spreadOf(of(key, "perSecond")),
      micros: spreadOf(of(key, "micros")),
      p50Ms: spreadOf(of(key, "p50")),
      p99Ms: spreadOf(of(key, "p99")),
    },
  ]),
);
const thousandMs = spreadOf(yardsticks);
const rows = Object.entries(figures).map(([key, { perSecond, micros, p50Ms, p99Ms }]) => [
  key,
  ...[perSecond, micros, p50Ms, p99Ms].map(({ median }) => `${median}`),
]);
for (const line of [
  "",
  ...table(["in a request", "items/s", "µs each", "p50 ms", "p99 ms"], rows),
  "",
])
  console.log(line);
console.log(`SQLite alone stores 1,000 of them, in groups of 100, in ${thousandMs.median} ms\n`);
const ratios = Object.fromEntries(
  names.flatMap((name) => [
    ...sizes
      .slice(1)
      .map((size) => [
        `${name}: µs in ${size}/alone`,
        ratioOf(of(`${name} ${size}`, "micros"), of(`${name} 1`, "micros")),
      ]),
    [`${name}: 1,000 acknowledged/SQLite alone`, ratioOf(of(`${name} 1000`, "p50"), yardsticks)],
  ]),
);
printResult("batches", machine, { ...figures, "SQLite alone, ms": thousandMs }, ratios);
