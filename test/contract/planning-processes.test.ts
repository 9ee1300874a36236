import fc from "fast-check";
import { expect, test } from "vitest";
import type { Settlement } from "../../src/model/delivery.ts";
import type { ReceivedEvent } from "../../src/model/event.ts";
import { createRandom } from "../../src/sandbox/random.ts";
import type { RedisLink } from "../../src/store/redis/client.ts";
import { keysOf } from "../../src/store/redis/keys.ts";
import type { Planned } from "../../src/store/rules.ts";
import { openEmbeddedAnew } from "./both-engines-open.ts";
import type { Engine } from "./both-engines-steps.ts";
import { createGate, type Gate } from "./gated-links.ts";
import { type Act, type Round, rounds, routes, type Turn } from "./planning-draws.ts";
import { redisOfFile } from "./redis-of-file.ts";
import type { OpenedStore } from "./redis-queue.ts";
import { openRedisStore } from "./redis-queue.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const rules = rulesFor(routes, { parkFor: 60_000 });
const wamids = ["w0", "w1", "w2"];
const { client } = redisOfFile();
let made = 0;

/** Processes of one relay, and beside them one that does everything alone and in order. */
interface World {
  readonly gate: Gate;
  readonly prefix: string;
  readonly stores: readonly OpenedStore[];
  readonly model: Engine;
  /** Events as they were accepted, by seq. */
  readonly accepted: Map<number, ReceivedEvent>;
  /** Of events told to the model: its seqs by ours. */
  readonly told: Map<number, number>;
  readonly planned: Planned[];
  readonly repeats: Map<number, { duplicates: number; conflicts: number }>;
  now: number;
}

/** How often what the test is about has happened, in all of its runs. */
const seen = { atOnce: 0, later: 0, lost: 0, refused: 0, overtaken: 0, repeatedWhileWaiting: 0, left: 0 };

const openStore = (link: RedisLink, prefix: string, plansLater = false): OpenedStore =>
  openRedisStore(link, prefix, rules, { committed: () => {} }, plansLater);

async function plan(world: World, store: OpenedStore): Promise<void> {
  const { planned, left } = await store.planning.planSome(world.now);
  if (left === "others") seen.overtaken += 1;
  world.planned.push(...planned);
}

async function planAll(world: World, store: OpenedStore): Promise<void> {
  while ((await store.planning.next()) !== null) await plan(world, store);
}

async function acceptOne(world: World, process: number, event: ReceivedEvent): Promise<void> {
  const outcome = await (world.stores[process] as OpenedStore).accept(event);
  if (outcome.result === "accepted") {
    expect(world.accepted.has(outcome.seq), "a seq is given once").toBe(false);
    world.accepted.set(outcome.seq, event);
    if (event.subject.type === "message") seen[outcome.disposition === "accepted" ? "later" : "atOnce"] += 1;
    else expect(outcome.disposition).not.toBe("accepted");
    return;
  }
  const sum = world.repeats.get(outcome.seq) ?? { duplicates: 0, conflicts: 0 };
  world.repeats.set(outcome.seq, { duplicates: sum.duplicates + 1, conflicts: sum.conflicts + (outcome.conflict ? 1 : 0) });
  if (!world.told.has(outcome.seq)) seen.repeatedWhileWaiting += 1;
}

const changed = (event: ReceivedEvent): ReceivedEvent => ({ ...event, body: Buffer.concat([event.body, Buffer.from(" ")]) });

async function run(world: World, act: Act, known: ReceivedEvent[]): Promise<void> {
  const { gate, prefix, stores, now } = world;
  switch (act.do) {
    case "accept": {
      const { about, of, status, errorCode, isLarge } = act;
      const parts = { receivedAt: now, at: now - 5, data: { padding: isLarge ? "x".repeat(1_500) : "" } };
      const event =
        about === "nothing"
          ? anEvent({ ...parts, event: "contact.created" })
          : about === "run"
            ? anEvent({ ...parts, runId: `r${of}` })
            : anEvent({ ...parts, wamid: wamids[of] as string, status, errorCode });
      known.push(event);
      await Promise.all(act.by.map((one) => acceptOne(world, one.process, one.changed ? changed(event) : event)));
      return;
    }
    case "again": {
      const event = known[act.drawn % Math.max(1, known.length)];
      if (event !== undefined) await acceptOne(world, act.process, act.changed ? changed(event) : event);
      return;
    }
    case "plan":
      return plan(world, stores[act.process] as OpenedStore);
    case "plan and end": {
      const { link, ended } = gate.ending(act.after, act.how);
      const running = plan(world, openStore(link, prefix)).catch(() => {
        seen.refused += 1;
      });
      const lost = ended.then(() => {
        if (act.how === "lost") seen.lost += 1;
        else return running;
      });
      await Promise.race([running, lost]);
    }
  }
}

/** Tells the model of all that was planned since, in the order in which it was accepted. */
async function tellModel({ stores, model, accepted, told, gate }: World): Promise<void> {
  await gate.idle();
  const { events } = await (stores[0] as OpenedStore).read.events.list({ limit: 1_000 });
  for (const { seq, disposition } of events.toReversed()) {
    if (disposition === "accepted" || told.has(seq)) continue;
    const outcome = await model.store.accept(accepted.get(seq) as ReceivedEvent, null);
    expect(outcome.result).toBe("accepted");
    told.set(seq, outcome.seq);
  }
  seen.left += accepted.size - told.size;
}

async function take(world: World, turn: Turn): Promise<void> {
  const { stores, model, told, now } = world;
  const store = stores[2] as OpenedStore;
  switch (turn.do) {
    case "register": {
      const registration = { account: "main", wamid: wamids[turn.of] as string, reference: "order" };
      const [ours, theirs] = await Promise.all([store.register([registration], now), model.store.register([registration], now)]);
      expect(ours.due.map(({ route, event }) => [route, told.get(event)])).toEqual(theirs.due.map(({ route, event }) => [route, event]));
      return;
    }
    case "expire":
      expect(await store.expireParked(now, 100)).toBe((await model.store.expireParked(now, 100)).concluded);
      return;
    case "settle": {
      const [event] = await store.due(turn.route, now, 1);
      if (event === undefined) return;
      const settlement = (of: number): Settlement => ({
        route: turn.route,
        event: of,
        attempt: { number: 1, at: now, tookMs: 3, result: { kind: "answered", status: 200, retryAfterMs: null }, response: null },
        settled: turn.to === "dead" ? { to: "dead", reason: "out of attempts" } : { to: "delivered" },
        at: now,
      });
      const { released } = await store.settle(settlement(event));
      const theirs = await model.settle(settlement(told.get(event) as number));
      expect(released === null ? null : told.get(released)).toBe(theirs);
      return;
    }
    case "plan all":
      return planAll(world, store);
  }
}

/** Compared with what was answered. */
const apart = { seq: null, duplicates: null, conflicts: null };

/** All that readers say of events, deliveries, messages and runs, with events named by the id that they came with. */
async function whole({ read }: Pick<OpenedStore, "read"> | Engine["store"]) {
  const { events } = await read.events.list({ limit: 1_000 });
  const idOf = new Map(events.map(({ seq, id }) => [seq, id]));
  const byId = <T extends { id: string | null }>(list: T[]) => list.sort((a, b) => ((a.id ?? "") < (b.id ?? "") ? -1 : 1));
  const details = await Promise.all(events.map(({ seq }) => read.events.get(seq)));
  const deliveries = await read.deliveries.list({ limit: 2_000 });
  const range = { after: 0, before: Number.MAX_SAFE_INTEGER, limit: 100 };
  return {
    // Who plans after a parked event's time is up gives it to expiry at once, by another time than its own.
    events: byId(details.map((one) => ({ ...one, id: one?.id ?? null, ...apart, parkedUntil: (one?.parkedUntil ?? null) === null }))),
    deliveries: byId(deliveries.map(({ event, ...delivery }) => ({ ...delivery, eventId: idOf.get(event) }))),
    messages: await Promise.all(wamids.map(async (wamid) => (await read.messages.find(wamid)).map(({ seq: _, ...view }) => view))),
    runs: (await read.runs.list(range)).map(({ seq: _, ...view }) => view),
    stories: await Promise.all(
      wamids.map(async (wamid) => (await read.stories.eventsOf("message", "main", wamid, 0, 1_000)).map((seq) => idOf.get(seq))),
    ),
  };
}

async function expectBalanced(store: OpenedStore, now: number): Promise<void> {
  const report = await store.inspecting.audit({ now, isRunning: false, mostOffenders: 20 }, () => {});
  expect(report, JSON.stringify(report.offenders)).toMatchObject({ balanced: true });
}

async function runAll(order: readonly Round[], seed: number, model: Engine): Promise<void> {
  made += 1;
  const prefix = `planning-${made}`;
  const random = createRandom(String(seed));
  const gate = createGate(client(), (below) => random.below(below));
  const stores = [true, true, false, false].map((plansLater) => openStore(gate.link, prefix, plansLater));
  const fresh = { accepted: new Map(), told: new Map(), planned: [], repeats: new Map(), now: start };
  const world: World = { gate, prefix, stores, model, ...fresh };
  const known: ReceivedEvent[] = [];
  for (const { acts, turn, after } of order) {
    world.now += after;
    await Promise.all(acts.map((act) => run(world, act, known)));
    await tellModel(world);
    await take(world, turn);
    await tellModel(world);
  }
  await expectBalanced(stores[0] as OpenedStore, world.now);
  // Whoever else there was is gone; one more comes and finds the rest.
  await planAll(world, openStore(gate.link, prefix));
  await tellModel(world);

  expect(await client().exists(keysOf(prefix).of("unplanned"))).toBe(0);
  const seqs = world.planned.map(({ seq }) => seq);
  expect(new Set(seqs).size, "nobody was told twice of one that was planned").toBe(seqs.length);
  const { accepted, told, repeats } = world;
  expect(new Set([...accepted.values()].map(({ envelope }) => envelope.id)).size, "each id is one event").toBe(accepted.size);
  expect(told.size).toBe(accepted.size);
  expect(await whole(stores[0] as OpenedStore)).toEqual(await whole(model.store));
  for (const seq of accepted.keys()) {
    const event = await (stores[0] as OpenedStore).read.events.get(seq);
    expect(event).toMatchObject(repeats.get(seq) ?? { duplicates: 0, conflicts: 0 });
  }
  await expectBalanced(stores[0] as OpenedStore, world.now);
  await Promise.all(stores.map((store) => store.close()));
}

test("concurrent processes that accept, plan, die and register plan each event once, as one process would", async () => {
  await fc.assert(
    fc.asyncProperty(rounds, fc.nat(), async (order, seed) => {
      const model = openEmbeddedAnew(rules);
      try {
        await runAll(order, seed, model);
      } finally {
        await model.end();
      }
    }),
    { numRuns: 16, interruptAfterTimeLimit: 200_000 },
  );
  for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(0);
});
