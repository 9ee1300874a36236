import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { Client } from "pg";
import type { Lease } from "../src/model/route-lease.ts";
import { leaseName, leaseTimes, shardOf, wholeRoute } from "../src/model/route-lease.ts";
import { openPostgresStore } from "../src/store/postgres/open.ts";
import { anEvent, rulesFor } from "../test/contract/store-events.ts";
import { startPostgres } from "../test/setup/postgres.ts";
import { createPortLane, placesOf } from "./delivery/port-lane.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { familySeconds } from "./load/measure.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { printResult, ratioOf, spreadOf, table } from "./report.ts";

const usage = `Two receivers and two workers at once on one PostgreSQL 18, through the store's port: node bench/processes.ts
Events of a message, and the 5 % that come twice at once, go to the receivers at random. No message is registered.
  --events <n>          three per message, in batches of 100 (30000)
  --rounds <n>          (5)
  --yardstick <file>    the script that does the same work with nothing around it, run on two connections; it gets DATABASE_URL
  --short               one round of 600 events, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  yardstick: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const total = Math.ceil(numberFlag("events", flags.events, short ? 600 : 30_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 5));
const batch = 100;
const duplicateShare = 0.05;
const receivers = 2;
const workers = 2;

interface Measured {
  /** Events accepted and delivered. */
  readonly perSecond: number;
  /** µs of the database's processor time for an event. */
  readonly micros: number;
  /** Transactions that were rolled back, by batches of accepted events. */
  readonly conflicts: number;
  readonly deadlocks: number;
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));
const measured: Record<"one" | "eight", Measured[]> = { one: [], eight: [] };
const yardsticks: number[] = [];
for (let round = 0; round < rounds; round += 1) {
  measured.one.push(await measure(1));
  measured.eight.push(await measure(8));
  if (flags.yardstick !== undefined) yardsticks.push(await yardstick(flags.yardstick));
  const micros = [
    measured.one.at(-1)?.micros,
    measured.eight.at(-1)?.micros,
    yardsticks.at(-1),
  ].map((of) => of?.toFixed(1) ?? "–");
  console.log(
    `round ${round + 1}: one route ${micros[0]} µs of the database, eight ${micros[1]}, yardstick ${micros[2]}`,
  );
}

const figures = Object.fromEntries(
  Object.entries(measured).map(([name, each]) => [
    name,
    {
      perSecond: spreadOf(each.map(({ perSecond }) => perSecond)),
      database: spreadOf(each.map(({ micros }) => micros)),
      conflictsPerBatch: spreadOf(each.map(({ conflicts }) => conflicts)),
      deadlocks: each.reduce((sum, { deadlocks }) => sum + deadlocks, 0),
    },
  ]),
);
const rows = Object.entries(figures).map(
  ([name, { perSecond, database, conflictsPerBatch, deadlocks }]) => [
    name,
    ...[perSecond, database, conflictsPerBatch].map(({ median }) => `${median}`),
    `${deadlocks}`,
  ],
);
for (const line of [
  "",
  ...table(["routes", "events/s", "µs of the database", "conflicts per batch", "deadlocks"], rows),
  "",
])
  console.log(line);
const yards = yardsticks.length === 0 ? {} : { yardstick: { database: spreadOf(yardsticks) } };
printResult(
  "processes",
  machine,
  { events: total, rounds, ...figures, ...yards },
  Object.fromEntries(
    (["one", "eight"] as const).flatMap((name) => {
      const ours = measured[name].map(({ micros }) => micros);
      return yardsticks.length === 0
        ? []
        : [[`database ${name}/yardstick`, ratioOf(ours, yardsticks)]];
    }),
  ),
);

async function measure(routes: number): Promise<Measured> {
  await using parts = new AsyncDisposableStack();
  const server = await startPostgres({ durable: true, tcp: true });
  parts.defer(() => server.stop());
  const names = Array.from({ length: routes }, (_, number) => `route-${number}`);
  const rules = rulesFor(
    names.map((name) => ({ name, order: "none", match: { sources: [`of-${name}`] } })),
    { unknown: "forward" },
  );
  const closing = new AsyncDisposableStack();
  let batches = 0;
  const { promise: failing, reject: fail } = Promise.withResolvers<never>();
  failing.catch(() => {});
  const countBatch = () => {
    batches += 1;
  };
  async function open(role: "receive" | "work") {
    const held = new Map<string, Lease>();
    const id = randomUUID();
    const { store } = await openPostgresStore(
      { url: server.url, schema: "relay" },
      {
        rules,
        hooks: { committed: role === "receive" ? countBatch : () => {}, failed: fail },
        presence: { id, role, host: "bench", pid: process.pid, version: "bench" },
        held: () => held,
      },
    );
    closing.defer(() => store.close());
    return { id, store, held };
  }

  let settled = 0;
  const { promise: delivered, resolve: end } = Promise.withResolvers<void>();
  for (let number = 0; number < workers; number += 1) {
    const { id, store, held } = await open("work");
    const shard = routes === 1 ? { number, of: workers } : wholeRoute;
    const own = names.filter((_, place) => routes === 1 || place % workers === number);
    const leases = own.map((route) => leaseName(route, shard));
    await store.leases.beat(id, leases, leaseTimes.deadAfterMs);
    for (const [name, lease] of await store.leases.take(id, leases, leaseTimes.deadAfterMs))
      held.set(name, lease);
    if (held.size !== own.length) throw new Error("a worker did not get its routes");
    const count = () => {
      settled += 1;
      if (settled === total) end();
    };
    const lanes = new Map(
      own.map((route) => [
        route,
        createPortLane({ route, shard, store, isShared: true, settled: count }),
      ]),
    );
    for (const lane of lanes.values()) {
      closing.defer(() => lane.close());
      lane.deliver(Number.POSITIVE_INFINITY).catch(fail);
    }
    store.onDue({
      offer(due) {
        for (const one of due)
          for (const place of placesOf([one]))
            if (shardOf(place.lane, shard.of) === shard.number) lanes.get(one.route)?.offer(place);
      },
      wake: (route) => lanes.get(route)?.lookAgain(),
    });
  }
  const received = eventsFor(routes);
  const stores = [];
  for (let number = 0; number < receivers; number += 1) stores.push((await open("receive")).store);

  batches = 0;
  const [before, at] = [familySeconds(server.pid), performance.now()];
  const accepting = stores.map(async (store, number) => {
    const events = received[number] ?? [];
    let accepted = 0;
    for (let from = 0; from < events.length; from += batch) {
      const outcomes = await Promise.all(
        events.slice(from, from + batch).map((event) => store.accept(event)),
      );
      for (const outcome of outcomes) {
        if (outcome.result === "duplicate") continue;
        accepted += 1;
        store.announce(outcome.due);
      }
    }
    return accepted;
  });
  const sums = await Promise.race([failing, Promise.all(accepting)]);
  const accepted = sums.reduce((sum, each) => sum + each, 0);
  if (accepted !== total) throw new Error(`${accepted} of ${total} events were accepted`);
  await Promise.race([failing, delivered]);
  const [seconds, used] = [(performance.now() - at) / 1000, familySeconds(server.pid) - before];
  const written = batches;
  // Sessions report their rollbacks when they end.
  await closing.disposeAsync();
  const client = new Client(server.url);
  await client.connect();
  const opened = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'wamid-relay'";
  while ((await client.query(opened)).rows.length > 0) await wait(20);
  const { rows: found } = await client.query(
    "SELECT xact_rollback AS n, deadlocks FROM pg_stat_database WHERE datname = 'postgres'",
  );
  await client.end();
  return {
    perSecond: total / seconds,
    micros: (used / total) * 1e6,
    conflicts: Number(found[0]?.n) / written,
    deadlocks: Number(found[0]?.deadlocks),
  };
}

/** What each receiver gets, in order. */
function eventsFor(routes: number) {
  const received = Array.from({ length: receivers }, (): ReturnType<typeof anEvent>[] => []);
  const run = randomUUID().slice(0, 8);
  const any = () => received[Math.floor(Math.random() * receivers)] as ReturnType<typeof anEvent>[];
  for (let number = 0; number < total; number += 1) {
    const message = Math.floor(number / 3);
    const event = anEvent({
      id: randomUUID(),
      source: `of-route-${message % routes}`,
      wamid: `wamid.${Buffer.from(`\x1d\x18\x0d549115550${1e8 + message}${run}aaaaaa`).toString("base64")}`,
      status: ["sent", "delivered", "read"][number % 3] as string,
      receivedAt: Date.now(),
      data: { conversation: "c".repeat(120) },
    });
    any().push(event);
    if (Math.random() < duplicateShare) any().push(event);
  }
  return received;
}

/** µs of the database's processor time for an event, both steps together. */
async function yardstick(file: string): Promise<number> {
  await using server = await startPostgres({ durable: true, tcp: true });
  const before = familySeconds(server.pid);
  execFileSync(process.execPath, [file, `${total}`, `${batch}`, `${receivers}`, "shards"], {
    env: { ...process.env, DATABASE_URL: server.url },
    stdio: ["ignore", "ignore", "inherit"],
  });
  return ((familySeconds(server.pid) - before) / total) * 1e6;
}
