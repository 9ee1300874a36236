import { startPostgres } from "../test/setup/postgres.ts";
import { startRedis } from "../test/setup/redis.ts";
import { measureDelivery } from "./delivery/measure-delivery.ts";
import { wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { familySeconds, processorSeconds } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { type Relay, type RelayOptions, startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, spreadOf, table } from "./report.ts";

const usage = `From received to delivered over PostgreSQL, one process with both roles: node bench/shared.ts
  --events <n>          per side and round, of registered messages, as fast as they go (30000)
  --rounds <n>          (5)
  --connections <n>     of the load, and of the deliveries (64)
  --redis-relay <file>  the wamid-relay.js of a checkout that still has an engine over Redis, measured beside it
  --sqlite              also on SQLite
  --short               one round of 600 events, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  connections: { type: "string" },
  "redis-relay": { type: "string" },
  sqlite: { type: "boolean" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 600 : 30_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 5));
const connections = Math.ceil(numberFlag("connections", flags.connections, 64));

type SideName = "postgres" | "redis" | "sqlite";
interface Side {
  readonly relay: Relay;
  /** Seconds of processor time that its database has used so far. */
  readonly database: () => number;
}
interface Measured {
  readonly perSecond: number;
  /** Microseconds of processor time for an event. */
  readonly relay: number;
  readonly database: number;
  readonly repeats: number;
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());
const names: readonly SideName[] = [
  "postgres",
  ...(flags["redis-relay"] === undefined ? [] : (["redis"] as const)),
  ...(flags.sqlite === true ? (["sqlite"] as const) : []),
];
const measured = new Map<SideName, Measured[]>(names.map((name) => [name, []]));
for (let round = 0; round < rounds; round += 1) {
  for (const name of round % 2 === 0 ? names : names.toReversed()) {
    const result = await measure(name, round);
    measured.get(name)?.push(result);
    const { perSecond, relay, database } = result;
    console.log(
      `round ${round + 1}: ${name} ${Math.round(perSecond)} delivered/s, relay ${Math.round(relay)} µs, database ${Math.round(database)} µs`,
    );
  }
}

const figures = Object.fromEntries(
  names.map((name) => {
    const each = measured.get(name) ?? [];
    return [
      name,
      {
        perSecond: spreadOf(each.map(({ perSecond }) => perSecond)),
        relay: spreadOf(each.map(({ relay }) => relay)),
        database: spreadOf(each.map(({ database }) => database)),
        repeats: each.reduce((sum, { repeats }) => sum + repeats, 0),
      },
    ];
  }),
);
const rows = Object.entries(figures).map(([name, { perSecond, relay, database, repeats }]) => [
  name,
  `${perSecond.median}`,
  `${perSecond.min}–${perSecond.max}`,
  `${relay.median}`,
  `${database.median}`,
  `${repeats}`,
]);
for (const line of [
  "",
  ...table(["", "delivered/s", "spread", "µs each: relay", "database", "repeats"], rows),
  "",
])
  console.log(line);
printResult("shared", machine, figures, { ...against("redis"), ...against("sqlite") });

function against(other: SideName): object {
  const [ours, theirs] = [measured.get("postgres") ?? [], measured.get(other) ?? []];
  if (theirs.length === 0) return {};
  const of = (key: "perSecond" | "relay" | "database") =>
    ratioOf(
      ours.map((each) => each[key]),
      theirs.map((each) => each[key]),
    );
  return {
    [`postgres/${other}`]: of("perSecond"),
    [`relay's µs postgres/${other}`]: of("relay"),
    ...(other === "redis" ? { [`database's µs postgres/${other}`]: of("database") } : {}),
  };
}

/**
 * On a server of its own: a first tenth is not counted, because what is compiled while it runs
 * should not be measured.
 */
async function measure(name: SideName, round: number): Promise<Measured> {
  await using parts = new AsyncDisposableStack();
  const sink = await startChild("servers/sink.ts");
  parts.defer(() => sink.stop());
  const { relay, database } = await startSide(
    name,
    { destination: `http://127.0.0.1:${sink.port}/events`, concurrency: connections },
    parts,
  );
  const side = {
    name: "relay" as const,
    port: relay.port,
    pid: relay.pid(),
    sink,
    expect: (set: { run: number; count: number }) => relay.register(wamidsOf(set)),
  };
  const warm = { run: 1000 + round, count: Math.ceil(events / 10) };
  await load.ask({ prepare: warm });
  await measureDelivery(load, side, warm, { connections, rate: null });
  const set = { run: round, count: events };
  await load.ask({ prepare: set });
  await side.expect(set);
  const before = [processorSeconds(relay.pid()) ?? Number.NaN, database()] as const;
  const delivered = await measureDelivery(load, { ...side, expect: async () => {} }, set, {
    connections,
    rate: null,
  });
  const after = [processorSeconds(relay.pid()) ?? Number.NaN, database()] as const;
  const micros = (at: 0 | 1) => ((after[at] - before[at]) / events) * 1e6;
  return {
    perSecond: delivered.perSecond,
    relay: micros(0),
    database: micros(1),
    repeats: delivered.repeats,
  };
}

async function startSide(
  name: SideName,
  options: RelayOptions,
  parts: AsyncDisposableStack,
): Promise<Side> {
  const start = async (more: Partial<RelayOptions>) => {
    const relay = await startRelay({ ...options, ...more });
    parts.defer(() => relay.stop());
    return relay;
  };
  if (name === "sqlite") return { relay: await start({}), database: () => 0 };
  if (name === "redis") {
    // As durable as PostgreSQL.
    const redis = await startRedis({ appendonly: "always" });
    parts.defer(() => redis.stop());
    const relay = await start({
      command: flags["redis-relay"],
      // With the default timeout of 2 s, a pause of the machine is a 503, which ends a bench.
      settings: { storage: { driver: "redis", url: redis.url, commandTimeout: "30s" } },
    });
    return { relay, database: () => processorSeconds(redis.pid) ?? Number.NaN };
  }
  const server = await startPostgres({ durable: true, tcp: true });
  parts.defer(() => server.stop());
  const relay = await start({ settings: { storage: { driver: "postgres", url: server.url } } });
  return { relay, database: () => familySeconds(server.pid) };
}
