import { randomUUID } from "node:crypto";
import { Client } from "pg";
import type { QueuedDelivery, Settled } from "../src/model/delivery.ts";
import type { Wamid } from "../src/model/ids.ts";
import { openPostgresStore } from "../src/store/postgres/open.ts";
import { anEvent, rulesFor } from "../test/contract/store-events.ts";
import { startPostgres } from "../test/setup/postgres.ts";
import { account } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { printResult, round, table } from "./report.ts";

const usage = `What PostgreSQL 18 keeps on disk over a month with retention, in compressed time, through the store's port: node bench/month.ts
Of 20 messages, 2 are not registered and ignored. One in 100 is a dead letter. On day 12 nothing is delivered.
  --per-day <n>         events, three per message (20000)
  --days <n>            (30)
  --short               60 events in each of 16 days, for CI`;

const flags = readFlags(usage, {
  "per-day": { type: "string" },
  days: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const perDay = Math.ceil(numberFlag("per-day", flags["per-day"], short ? 60 : 20_000));
const days = Math.ceil(numberFlag("days", flags.days, short ? 16 : 30));

const dayMs = 86_400_000;
/** Parts of a day: each is received, then delivered, then retention runs. */
const parts = short ? 2 : 12;
const perPart = Math.ceil(perDay / parts / 3);
/** By day 7, what is kept is as much as it will be. */
const keep = {
  events: 5 * dayMs,
  deliveries: 5 * dayMs,
  ignored: dayMs,
  messages: 5 * dayMs,
  history: 5 * dayMs,
};
const firstCompared = 7;
const outage = 12;
const batch = 100;
const stepRows = 2_000;
const route = "crm";
const statuses = ["sent", "delivered", "read"] as const;
/** Attempts of a dead letter. */
const attempts = 3;

/** Bytes by table or index, at the end of a day. */
type Sizes = Readonly<Record<string, number>>;

const machine = await lookAtMachine();
console.log(describeMachine(machine));
await using stack = new AsyncDisposableStack();
// Autovacuum looks once a minute, and rests between pages. A day lasts a few seconds here.
const settings = { autovacuum_naptime: 1, autovacuum_vacuum_cost_delay: 0 };
const server = await startPostgres({ tcp: true, settings });
stack.defer(() => server.stop());
const { store } = await openPostgresStore(
  { url: server.url, schema: "relay" },
  {
    rules: rulesFor([{ name: route, match: { tracked: true }, order: "message" }], {
      unknown: "ignore",
    }),
    hooks: {
      committed() {},
      failed(error) {
        throw error;
      },
    },
    presence: { id: randomUUID(), role: "both", host: "bench", pid: process.pid, version: "bench" },
    held: () => null,
  },
);
stack.defer(() => store.close());
const client = new Client(server.url);
await client.connect();
stack.defer(() => client.end());

// The month ends now, because the database compares some times with its own clock.
const start = Date.now() - days * dayMs;
const sizes: Sizes[] = [];
const counts = { accepted: 0, ignored: 0, delivered: 0, dead: 0, mostWaiting: 0 };
for (let day = 1; day <= days; day += 1) {
  for (let part = 0; part < parts; part += 1) {
    const from = start + ((day - 1) * parts + part) * (dayMs / parts);
    const to = from + dayMs / parts;
    await receive(from, to);
    if (day !== outage) await deliver(to);
    await purge(to);
  }
  if (day === outage) counts.mostWaiting = await countOf("queue");
  sizes.push(await measureSizes());
  console.log(`day ${day}: ${mb(totalOf(sizes.at(-1)))} MB, ${await countOf("events")} events`);
}
const [before, after] = [sizes[firstCompared - 1] ?? {}, sizes.at(-1) ?? {}];
const largest = Object.keys(after)
  .filter((name) => (after[name] ?? 0) > 0.005 * totalOf(after))
  .sort((a, b) => (after[b] ?? 0) - (after[a] ?? 0));
const rows = largest.map((name) => [
  name,
  mb(before[name]),
  mb(sizes[outage - 1]?.[name]),
  mb(after[name]),
  ratioText(name),
]);
const head = ["MB", `day ${firstCompared}`, `day ${outage}, outage`, `day ${days}`, "last/first"];
for (const line of ["", ...table(head, rows), ""]) console.log(line);
printResult(
  "month",
  machine,
  {
    perDay: 3 * perPart * parts,
    days,
    ...counts,
    bytes: { [`day ${firstCompared}`]: before, [`day ${days}`]: after },
  },
  { [`day ${days}/day ${firstCompared}`]: round(totalOf(after) / totalOf(before)) },
);

/** Registers the messages of a part of a day, then accepts their events. */
async function receive(from: number, to: number): Promise<void> {
  const messages = Array.from({ length: perPart }, (_, number) => {
    const wamid =
      `wamid.${Buffer.from(`\x1d\x18\x0d549115550${1e8 + number}${randomUUID().slice(0, 18)}`).toString("base64")}` as Wamid;
    return { wamid, isKnown: number % 10 !== 0 };
  });
  const known = messages.flatMap(({ wamid, isKnown }) => (isKnown ? [registrationOf(wamid)] : []));
  for (let at = 0; at < known.length; at += batch)
    await store.register(known.slice(at, at + batch), from);
  const events = messages.flatMap(({ wamid }, number) =>
    statuses.map((status) => {
      const receivedAt = Math.floor(from + ((to - from) * number) / perPart);
      return anEvent({
        id: randomUUID(),
        account,
        wamid,
        status,
        receivedAt,
        data: { conversation: "c".repeat(120) },
      });
    }),
  );
  for (let at = 0; at < events.length; at += batch) {
    const outcomes = await Promise.all(
      events.slice(at, at + batch).map((event) => store.accept(event)),
    );
    for (const outcome of outcomes) {
      if (outcome.result !== "accepted") throw new Error("an event was not accepted");
      counts.accepted += 1;
      if (outcome.disposition === "ignored") counts.ignored += 1;
    }
  }
}

function registrationOf(wamid: Wamid) {
  return { account, wamid, reference: `order-${wamid.slice(-12)}` };
}

/** All that is due, held deliveries included. One in 100 fails until it is dead. */
async function deliver(now: number): Promise<void> {
  for (;;) {
    const { places } = await store.due({ route, from: 0, now, limit: batch });
    if (places.length === 0) return;
    await Promise.all((await store.load(route, places)).map((delivery) => settle(delivery, now)));
  }
}

async function settle(delivery: QueuedDelivery, at: number): Promise<void> {
  const { event, receivedAt } = delivery;
  const isBad = event % 100 === 0;
  const number = delivery.attempts + 1;
  const settled: Settled = !isBad
    ? { to: "delivered" }
    : number < attempts
      ? { to: "waiting", nextAt: at }
      : { to: "dead", reason: "attempts" };
  const result = { kind: "answered", status: isBad ? 503 : 200, retryAfterMs: null } as const;
  await store.settle({
    route,
    event,
    delivery,
    at,
    receivedAt,
    attempt: { number, at, tookMs: 5, result, response: null },
    settled,
  });
  if (settled.to === "delivered") counts.delivered += 1;
  else if (settled.to === "dead") counts.dead += 1;
}

async function purge(now: number): Promise<void> {
  while (!(await store.purge(now, keep, stepRows)).done);
}

async function measureSizes(): Promise<Sizes> {
  const { rows: found } = await client.query<{ name: string; bytes: string }>(
    `SELECT c.relname AS name, pg_table_size(c.oid) AS bytes FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'relay' AND c.relkind IN ('r', 'i')`,
  );
  return Object.fromEntries(found.map(({ name, bytes }) => [name, Number(bytes)]));
}

async function countOf(name: string): Promise<number> {
  return Number((await client.query(`SELECT count(*) AS n FROM relay.${name}`)).rows[0]?.n);
}

function totalOf(of: Sizes = {}): number {
  return Object.values(of).reduce((sum, bytes) => sum + bytes, 0);
}

function mb(bytes = 0): string {
  return (bytes / 1e6).toFixed(1);
}

function ratioText(name: string): string {
  return ((after[name] ?? 0) / (before[name] ?? 0)).toFixed(2);
}
