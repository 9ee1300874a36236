import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ReceivedEvent } from "../src/model/event.ts";
import { openSqliteStore } from "../src/store/sqlite/open.ts";
import {
  type OneStore,
  openSharedAt,
  openSqlite,
  settlementOf,
} from "../test/contract/one-store.ts";
import { anEvent, rulesFor } from "../test/contract/store-events.ts";
import { startPostgres } from "../test/setup/postgres.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { printResult, ratioOf, spreadOf, table } from "./report.ts";

const usage = `What a store costs through its port, accept then due and settle: node bench/store.ts
  --events <n>          three per message, in batches of 100 (60000)
  --rounds <n>          (5)
  --postgres            also on PostgreSQL 18, which must be installed for tests
  --sqlite-yardstick <file>    the script that does the same work with nothing around it, which prints its figures as JSON
  --postgres-yardstick <file>  the same for PostgreSQL; it gets DATABASE_URL
  --short               3000 events and one round, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  rounds: { type: "string" },
  postgres: { type: "boolean" },
  "sqlite-yardstick": { type: "string" },
  "postgres-yardstick": { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const total = Math.ceil(numberFlag("events", flags.events, short ? 3_000 : 60_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 5));
const batch = 100;
/**
 * Accepts that are handed over at once, as when many requests wait for one turn of the event loop.
 */
const flood = 1_000;
const now = Date.now();

/** µs per event: of the clock, of Node's processor time, and of PostgreSQL's. */
interface Cost {
  readonly wall: number;
  readonly node: number;
  readonly postgres: number;
}
type Step = "accept" | "settle";
type Side = Readonly<Record<Step, Cost>>;

const flooded = "SQLite, 1,000 in one turn";
/** Milliseconds for which nothing else ran, the longest of each flood. */
const longestTurns: number[] = [];
/**
 * The yardsticks hold nothing behind another delivery, so they are compared with a route without
 * order.
 */
const rulesOf = { none: rulesIn("none"), message: rulesIn("message") };
const machine = await lookAtMachine();
console.log(describeMachine(machine));
const measured = new Map<string, Side[]>();
for (let round = 0; round < rounds; round += 1) {
  note("SQLite engine, in order", await engine());
  note("SQLite", await onSqlite("none"));
  note("SQLite, in order", await onSqlite("message"));
  note(flooded, await onSqlite("none", flood));
  if (flags["sqlite-yardstick"] !== undefined)
    note("SQLite yardstick", yardstick(flags["sqlite-yardstick"], {}));
  if (flags.postgres === true || flags["postgres-yardstick"] !== undefined) {
    for (const [side, order] of [
      ["PostgreSQL", "none"],
      ["PostgreSQL, in order", "message"],
    ] as const) {
      await using server = await startPostgres({ durable: true, tcp: true });
      await using store = await openSharedAt(server.url, rulesOf[order]);
      note(side, await through(store));
    }
    if (flags["postgres-yardstick"] !== undefined) {
      await using server = await startPostgres({ durable: true, tcp: true });
      note(
        "PostgreSQL yardstick",
        yardstick(flags["postgres-yardstick"], { DATABASE_URL: server.url }),
      );
    }
  }
}
const figures = Object.fromEntries([...measured].map(([side, costs]) => [side, figuresOf(costs)]));
for (const line of table(
  ["µs per event", "accept", "of Node", "of PostgreSQL", "settle", "of Node", "of PostgreSQL"],
  Object.entries(figures).map(([side, { accept, settle }]) => [
    side,
    ...[accept, settle].flatMap((of) =>
      [of.wall, of.node, of.postgres].map(({ median }) => String(median)),
    ),
  ]),
))
  console.log(line);
printResult(
  "store",
  machine,
  { events: total, batch, rounds, ...figures, longestTurnMs: spreadOf(longestTurns) },
  {
    ...ratios(flooded, "SQLite", "wall"),
    ...ratios(flooded, "SQLite yardstick", "wall"),
    ...ratios("SQLite engine, in order", "SQLite, in order", "wall"),
    ...ratios("SQLite", "SQLite yardstick", "wall"),
    ...ratios("PostgreSQL", "PostgreSQL yardstick", "postgres"),
  },
);

function rulesIn(order: "none" | "message") {
  return rulesFor([{ name: "crm", order }], { unknown: "forward" });
}

function note(side: string, costs: Side): void {
  measured.set(side, [...(measured.get(side) ?? []), costs]);
}

function figuresOf(costs: readonly Side[]) {
  const of = (step: Step) => ({
    wall: spreadOf(costs.map((cost) => cost[step].wall)),
    node: spreadOf(costs.map((cost) => cost[step].node)),
    postgres: spreadOf(costs.map((cost) => cost[step].postgres)),
  });
  return { accept: of("accept"), settle: of("settle") };
}

/** Round by round. Nothing when one of them was not measured. */
function ratios(above: string, below: string, by: keyof Cost): object {
  const [one, other] = [measured.get(above), measured.get(below)];
  if (one === undefined || other === undefined) return {};
  const of = (step: Step) =>
    ratioOf(
      one.map((cost) => cost[step][by]),
      other.map((cost) => cost[step][by]),
    );
  return {
    [`${by} accept ${above}/${below}`]: of("accept"),
    [`${by} settle ${above}/${below}`]: of("settle"),
  };
}

function eventsOf(): ReceivedEvent[] {
  return Array.from({ length: total }, (_, n) => {
    const message = Math.floor(n / 3);
    const wamid = `wamid.${Buffer.from(`\x1d\x18\x0d549115550${1e8 + message}aaaaaaaaaa${message}`).toString("base64")}`;
    // Random, because an id that could hide a phone number gets an entry in one more index.
    const id = randomUUID();
    return anEvent({
      id,
      wamid,
      status: ["sent", "delivered", "read"][n % 3] as string,
      // All at once would be due in one millisecond.
      receivedAt: now - total + n,
      data: { conversation: "c".repeat(120) },
    });
  });
}

/** The whole engine: with its lock, and a look at its files before each transaction. */
async function engine(): Promise<Side> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-store-"));
  const store = openSqliteStore(join(folder, "relay.db"), rulesOf.message, {
    committed() {},
    failed() {},
  });
  const accept = await cost((events) => Promise.all(events.map((event) => store.accept(event))));
  const settle = await drained(
    async () =>
      store.load("crm", (await store.due({ route: "crm", from: 0, now, limit: batch })).places),
    (due) =>
      Promise.all(due.map((delivery) => store.settle(settlementOf(delivery, "delivered", now)))),
  );
  await store.close();
  rmSync(folder, { recursive: true });
  return { accept, settle };
}

async function onSqlite(order: keyof typeof rulesOf, atOnce = batch): Promise<Side> {
  await using store = await openSqlite(rulesOf[order]);
  return await through(store, atOnce);
}

/** Returns the milliseconds between the two turns of the event loop that were furthest apart. */
function watchTurns(): () => number {
  let [longest, before, isOver] = [0, performance.now(), false];
  const look = () => {
    const at = performance.now();
    longest = Math.max(longest, at - before);
    before = at;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  return () => {
    isOver = true;
    return longest;
  };
}

async function through(store: OneStore, atOnce = batch): Promise<Side> {
  const accept = await cost((events) => store.accept(events), atOnce);
  // As a worker does: it has passed what was due before.
  let from = 0;
  const settle = await drained(
    async () => {
      const due = await store.due("crm", now, batch, from);
      from = due.at(-1)?.dueAt ?? from;
      return due;
    },
    (due) => store.settle(due.map((delivery) => settlementOf(delivery, "delivered", now))),
  );
  return { accept, settle };
}

async function cost(
  accept: (events: readonly ReceivedEvent[]) => Promise<readonly { readonly result: string }[]>,
  atOnce = batch,
): Promise<Cost> {
  const events = eventsOf();
  return await measure(async () => {
    for (let from = 0; from < total; from += atOnce) {
      const turns = atOnce === flood ? watchTurns() : null;
      const outcomes = await accept(events.slice(from, from + atOnce));
      if (turns !== null) longestTurns.push(turns());
      if (outcomes.some(({ result }) => result !== "accepted"))
        throw new Error("an event was not accepted");
    }
  });
}

/** Deliveries go out until none is due. */
async function drained<D>(
  due: () => Promise<readonly D[]>,
  settle: (due: readonly D[]) => Promise<unknown>,
): Promise<Cost> {
  let settled = 0;
  const costs = await measure(async () => {
    for (let list = await due(); list.length > 0; list = await due()) {
      await settle(list);
      settled += list.length;
    }
  });
  if (settled !== total) throw new Error(`${settled} of ${total} deliveries were settled`);
  return costs;
}

async function measure(work: () => Promise<void>): Promise<Cost> {
  const [postgres, own, startedAt] = [postgresMicros(), process.cpuUsage(), performance.now()];
  await work();
  const [ms, used] = [performance.now() - startedAt, process.cpuUsage(own)];
  return {
    wall: (ms * 1000) / total,
    node: (used.user + used.system) / total,
    postgres: (postgresMicros() - postgres) / total,
  };
}

/**
 * Processor time of all processes named postgres on this machine, so nothing else may run one.
 * Linux only; else 0.
 */
function postgresMicros(): number {
  let ticks = 0;
  for (const pid of process.platform === "linux"
    ? readdirSync("/proc").filter((name) => /^\d+$/.test(name))
    : []) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      if (!stat.includes("(postgres)")) continue;
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // It has ended meanwhile.
    }
  }
  return ticks * 10_000;
}

function yardstick(file: string, env: Readonly<Record<string, string>>): Side {
  const said = execFileSync(
    process.execPath,
    [
      file,
      String(total),
      String(batch),
      ...(env["DATABASE_URL"] === undefined ? [] : ["1", "shards"]),
    ],
    {
      encoding: "utf8",
      env: { ...process.env, ...env },
    },
  );
  const result = JSON.parse(said.trim().split("\n").at(-1) ?? "") as Record<
    string,
    Record<string, number>
  >;
  const of = (step: string): Cost => ({
    wall: 1e6 / (result[step]?.["perSecond"] ?? Number.NaN),
    node: result[step]?.["processorMicros"] ?? result[step]?.["nodeMicros"] ?? Number.NaN,
    postgres: result[step]?.["postgresMicros"] ?? 0,
  });
  return { accept: of("accept+track+plan"), settle: of("claim+settle") };
}
