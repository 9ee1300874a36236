import { setTimeout as wait } from "node:timers/promises";
import { Client } from "pg";
import { numberFlag, readFlags } from "./flags.ts";
import { type FullSide, startPostgresSide, startSqliteSide } from "./full/sides.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { printResult, ratioOf, round, spreadOf, table } from "./report.ts";

const usage = `Accepting and delivering through the store's port, with many events stored, against an empty store: node bench/full.ts
  --events <n>          stored (10000000)
  --waiting <n>         of them, those that wait to be delivered (500000)
  --rounds <n>          (5)
  --per-round <n>       events accepted, then delivered, per side and round, in turns of 100 (10000)
  --postgres            on PostgreSQL 18, which must be installed for tests
  --open                on PostgreSQL, with two transactions left open beside the full store, and how far listeners lag
  --short               3000 events, 600 waiting and one round of 300, for CI`;

const flags = readFlags(usage, {
  events: { type: "string" },
  waiting: { type: "string" },
  rounds: { type: "string" },
  "per-round": { type: "string" },
  postgres: { type: "boolean" },
  open: { type: "boolean" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const events = Math.ceil(numberFlag("events", flags.events, short ? 3_000 : 10_000_000));
const waiting = Math.ceil(numberFlag("waiting", flags.waiting, short ? 600 : 500_000));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 1 : 5));
const batch = 100;
const turns = Math.ceil(numberFlag("per-round", flags["per-round"], short ? 300 : 10_000) / batch);
if (flags.open === true && flags.postgres !== true) {
  console.error("--open needs --postgres");
  process.exit(2);
}

const steps = ["accept", "deliver"] as const;
type Step = (typeof steps)[number];
/** µs per event: of the clock, and of the processor time of Node and the database. */
interface Cost {
  readonly wall: number;
  readonly processor: number;
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));
await using stack = new AsyncDisposableStack();
const start = flags.postgres === true ? startPostgresSide : startSqliteSide;
const full = await start({ events, waiting }, stack, console.log);
const empty = await start({ events: 0, waiting: 0 }, stack, console.log);
const sides = { empty, full } as const;
type SideName = keyof typeof sides;
const ending =
  flags.open === true && full.postgres !== null ? await leaveOpen(full.postgres.url) : null;
const openedAt = performance.now();

const costs: Record<SideName, Record<Step, Cost[]>> = {
  empty: { accept: [], deliver: [] },
  full: { accept: [], deliver: [] },
};
// A first, uncounted round: what is compiled while it runs should not be measured.
for (let each = -1; each < rounds; each += 1) {
  for (const step of steps) {
    const measured = await inTurns((side) => side[step](batch));
    if (each < 0) continue;
    for (const name of ["empty", "full"] as const) costs[name][step].push(measured[name]);
    console.log(
      `round ${each + 1}, ${step}: empty ${Math.round(measured.empty.wall)} µs, full ${Math.round(measured.full.wall)} µs an event; of the processors ${Math.round(measured.empty.processor)} and ${Math.round(measured.full.processor)} µs`,
    );
  }
}
const openSeconds = ending === null ? null : round((performance.now() - openedAt) / 1000);
const lag =
  ending === null || full.postgres === null ? null : await measureLag(full, full.postgres, ending);

const figures = Object.fromEntries(
  (["empty", "full"] as const).map((name) => [
    name,
    Object.fromEntries(
      steps.map((step) => [
        step,
        {
          wall: spreadOf(costs[name][step].map(({ wall }) => wall)),
          processor: spreadOf(costs[name][step].map(({ processor }) => processor)),
        },
      ]),
    ) as Record<Step, Record<keyof Cost, ReturnType<typeof spreadOf>>>,
  ]),
);
const rows = Object.entries(figures).map(([name, of]) => [
  name,
  ...steps.flatMap((step) => [`${of[step].wall.median}`, `${of[step].processor.median}`]),
]);
for (const line of [
  "",
  ...table(["µs per event", "accept", "of processors", "deliver", "of processors"], rows),
  "",
])
  console.log(line);
printResult(
  "full",
  machine,
  {
    database: flags.postgres === true ? "postgres" : "sqlite",
    events,
    waiting,
    openSeconds,
    lag,
    ...figures,
  },
  Object.fromEntries(
    steps.flatMap((step) =>
      (["wall", "processor"] as const).map((by) => {
        const of = (name: SideName) => costs[name][step].map((cost) => cost[by]);
        // What is done in a time: the other way round than what takes time.
        return [`${step} full/empty by ${by}`, ratioOf(of("empty"), of("full"))];
      }),
    ),
  ),
);

/** Both sides by turns, so that what the machine does at a time, it does to both. */
async function inTurns(work: (side: FullSide) => Promise<void>): Promise<Record<SideName, Cost>> {
  const spent = { empty: { wall: 0, node: 0 }, full: { wall: 0, node: 0 } };
  const before = { empty: empty.databaseSeconds(), full: full.databaseSeconds() };
  for (let turn = 0; turn < turns; turn += 1) {
    for (const name of turn % 2 === 0
      ? (["empty", "full"] as const)
      : (["full", "empty"] as const)) {
      const [cpu, at] = [process.cpuUsage(), performance.now()];
      await work(sides[name]);
      spent[name].wall += performance.now() - at;
      const used = process.cpuUsage(cpu);
      spent[name].node += used.user + used.system;
    }
  }
  const done = turns * batch;
  const costOf = (name: SideName): Cost => ({
    wall: (spent[name].wall * 1000) / done,
    processor: (spent[name].node + (sides[name].databaseSeconds() - before[name]) * 1e6) / done,
  });
  return { empty: costOf("empty"), full: costOf("full") };
}

/**
 * Leaves two transactions open: one with a snapshot, and one that has written. Returns what ends
 * the second one.
 */
async function leaveOpen(url: string): Promise<() => Promise<void>> {
  const [reading, writing] = [new Client(url), new Client(url)];
  for (const client of [reading, writing]) {
    await client.connect();
    stack.defer(() => client.end());
  }
  await reading.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class");
  await writing.query("CREATE TABLE other (n int); BEGIN; INSERT INTO other VALUES (1)");
  return async () => void (await writing.query("COMMIT"));
}

/**
 * Milliseconds until listeners may read the events of a batch: without a gap in the numbers, and
 * with one. At a gap they wait for the transaction that has written.
 */
async function measureLag(
  { accept }: FullSide,
  { url, horizon }: NonNullable<FullSide["postgres"]>,
  end: () => Promise<void>,
) {
  const client = new Client(url);
  await client.connect();
  const lastSeq = async () =>
    Number((await client.query("SELECT max(seq) AS last FROM relay.events")).rows[0]?.last);
  async function read(last: number): Promise<number> {
    for (const at = performance.now(); ; await wait(1))
      if ((await horizon()) >= last) return performance.now() - at;
  }
  try {
    await accept(batch);
    const withoutGap = await read(await lastSeq());
    await client.query("SELECT nextval('relay.events_seq')");
    const before = await lastSeq();
    await accept(batch);
    const last = await lastSeq();
    const heldMs = short ? 200 : 2_000;
    for (const at = performance.now(); performance.now() - at < heldMs; await wait(10)) {
      if ((await horizon()) > before)
        throw new Error("listeners passed a gap while a transaction was open that may fill it");
    }
    await end();
    return { withoutGap: round(withoutGap), afterTheEnd: round(await read(last)) };
  } finally {
    await client.end();
  }
}
