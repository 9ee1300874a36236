// Slow: it kills the relay at random moments while messages are registered.
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { type MessageState, unobserved } from "../../src/model/tracking.ts";
import { bodyOf, type SandboxEvent } from "../../src/sandbox/events/event-maker.ts";
import { createRandom, type Random } from "../../src/sandbox/ids.ts";
import { stepMessage } from "../../src/track/states.ts";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { relayToken, routeTo } from "../harness/relay-settings.ts";
import { soakSize } from "../harness/soak.ts";
import { integrityOf, rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { arrivedAt, findSetbacks, findWrongStates, storedEvents } from "./crash-checks.ts";

const rounds = soakSize(7, 20);

function settingsFor(url: string, parkFor: string) {
  return {
    log: { level: "warn" },
    tracking: { unknown: "park", parkFor },
    routes: [
      routeTo(`${url}/all`, { name: "all" }),
      routeTo(`${url}/events`, { name: "events", match: { tracked: true } }),
      routeTo(`${url}/transitions`, { name: "transitions", match: { tracked: true }, emit: "transitions" }),
    ],
  };
}

/** Far apart: a request that finds nobody costs a millisecond of the processor that the relay's start is waiting for. */
const againAfterMs = 100;

/** Again until it succeeds: the relay is away now and then. */
async function persist<T>(attempt: () => Promise<T | null>): Promise<T> {
  for (;;) {
    const done = await attempt().catch(() => null);
    if (done !== null) return done;
    await wait(againAfterMs);
  }
}

function post(relay: RelayProcess, event: SandboxEvent): Promise<true> {
  return persist(async () => {
    const { status } = await postEvent(relay.webhookUrl, bodyOf(event), { timeoutMs: 2_000 });
    return status === 200 || null;
  });
}

function register(relay: RelayProcess, wamid: string): Promise<true> {
  const body = { account: "main", wamid, reference: `order of ${wamid}` };
  return persist(async () => (await relay.ask("/v1/messages/track", { method: "POST", body })).status === 200 || null);
}

/** As lines of one stream; a crash in the midst cuts the report, and all is told again. */
function registerLines(relay: RelayProcess, wamids: readonly string[]): Promise<true> {
  return persist(async () => {
    const answer = await fetch(`${relay.url}/v1/messages/track`, {
      method: "POST",
      headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/x-ndjson" },
      body: wamids.map((wamid) => `${JSON.stringify({ account: "main", wamid, reference: `order of ${wamid}` })}\n`).join(""),
      signal: AbortSignal.timeout(5_000),
    });
    const last = JSON.parse((await answer.text()).trimEnd().split("\n").at(-1) ?? "{}");
    if (last.lines === wamids.length) expect(last).toMatchObject({ conflict: 0, invalid: 0 });
    return last.lines === wamids.length || null;
  });
}

interface Load {
  /** Answers 2xx so far. */
  acknowledged(): number;
  readonly events: Map<string, SandboxEvent[]>;
  readonly registered: Set<string>;
  /** Begins no more messages; resolves when those under way have all their answers. */
  end(): Promise<void>;
}

const lives = [["sent"], ["sent", "delivered"], ["sent", "read", "delivered"], ["sent", "failed", "delivered", "read"]] as const;

/** Messages that live side by side: events one after the other, and for most of them a registration that races them. */
function startLoad(relay: RelayProcess, random: Random): Load {
  const make = createMessages(seed);
  const events = new Map<string, SandboxEvent[]>();
  const registered = new Set<string>();
  let acknowledged = 0;
  let isOver = false;

  async function live(own: Random): Promise<void> {
    const wamid = make.wamid();
    const mine: SandboxEvent[] = [];
    events.set(wamid, mine);
    const life = own.pick(lives);
    // After so many of its events; more than it has: never.
    const registerAfter = own.below(life.length + 2);
    let registering: Promise<void> = Promise.resolve();
    for (let posted = 0; posted <= life.length; posted++) {
      if (posted === registerAfter) {
        const telling = own.chance(0.3) ? registerLines(relay, [wamid]) : register(relay, wamid);
        registering = telling.then(() => {
          registered.add(wamid);
          acknowledged += 1;
        });
      }
      const status = life[posted];
      if (status === undefined) break;
      const event = make.status(wamid, status);
      mine.push(event);
      await post(relay, event);
      acknowledged += 1;
    }
    await registering;
  }

  const workers = Array.from({ length: 24 }, async (_, index) => {
    const own = random.fork(`worker ${index}`);
    while (!isOver) {
      await live(own);
      await wait(own.below(20));
    }
  });
  return {
    acknowledged: () => acknowledged,
    events,
    registered,
    async end() {
      isOver = true;
      await Promise.all(workers);
    },
  };
}

test(`accounts for every acknowledged event across ${rounds} kills while registrations race events`, async () => {
  const random = createRandom(seed);
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({ settings: settingsFor(downstream.url, "1h") });
  const load = startLoad(relay, random.fork("load"));
  const moments = random.fork("moments");
  let parkedAtACrash = 0;
  for (let round = 0; round < rounds; round++) {
    const moment = load.acknowledged() + 5 + moments.below(60);
    await until("the load is on", () => load.acknowledged() >= moment);
    await wait(moments.below(20));
    await relay.kill9();
    parkedAtACrash += rowsOf(relay.storePath, "SELECT DISTINCT event FROM queue WHERE state = 2").length > 0 ? 1 : 0;
    // A loop: now and then it dies while starting.
    if (moments.chance(0.25)) {
      const starting = relay.start().catch(() => null);
      await wait(moments.below(500));
      await relay.kill9();
      await starting;
    }
    await relay.start();
  }
  await load.end();
  const open = () => rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM queue WHERE state <> 2")[0]?.n;
  await until("every delivery is made", () => open() === 0);
  expect(parkedAtACrash).toBeGreaterThan(rounds / 2);
  const unregistered = [...load.events.keys()].filter((wamid) => !load.registered.has(wamid));
  expect(Math.min(load.registered.size, unregistered.length)).toBeGreaterThan(rounds * 2);

  // Each acknowledged event is in the file once, in the order in which its message's were posted.
  const stored = storedEvents(relay.storePath);
  const seqOf = new Map(stored.map(({ id, seq }) => [id as string, seq]));
  expect(seqOf.size).toBe(stored.length);
  expect(stored.map(({ id }) => id).toSorted()).toEqual(
    [...load.events.values()]
      .flat()
      .map(({ id }) => id as string)
      .toSorted(),
  );
  for (const mine of load.events.values()) {
    const seqs = mine.map(({ id }) => seqOf.get(id) as number);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  }

  // Complete where they are owed, under one delivery id each, and nowhere else.
  const ofRegistered = [...load.registered].flatMap((wamid) => load.events.get(wamid) ?? []);
  const moves = [...load.registered].flatMap((wamid) => movesOf(load.events.get(wamid) ?? []));
  const owed: Record<string, string[]> = {
    "/all": [...seqOf.keys()],
    "/events": ofRegistered.map(({ id }) => id),
    "/transitions": moves,
  };
  for (const [path, ids] of Object.entries(owed)) {
    expect([...arrivedAt(downstream.arrivals, path)].toSorted(), path).toEqual(ids.toSorted());
    expect(findSetbacks(downstream.arrivals, path, seqOf)).toEqual([]);
  }
  expect(rowsOf(relay.storePath, "SELECT count(*) AS n FROM deliveries")).toEqual([{ n: Object.values(owed).flat().length }]);

  // What nobody registered waits still, and nothing else does.
  const waiting = rowsOf<{ wamid: string }>(
    relay.storePath,
    "SELECT DISTINCT s.name AS wamid FROM queue q JOIN subjects s ON s.seq = q.lane WHERE q.state = 2",
  );
  expect(waiting.map(({ wamid }) => wamid).toSorted()).toEqual(unregistered.toSorted());
  expect(findWrongStates(relay.storePath)).toEqual([]);
  expect(integrityOf(relay.storePath)).toBe("ok");

  // The pipe is alive: who registers now gets what waited, through all those crashes.
  const last = unregistered.slice(0, 50);
  await registerLines(relay, last);
  const released = last.flatMap((wamid) => load.events.get(wamid) ?? []).map(({ id }) => id as string);
  await until("what waited is released", () => downstream.counts("/events").taken >= ofRegistered.length + released.length);
  expect([...arrivedAt(downstream.arrivals, "/events")].toSorted()).toEqual([...ofRegistered.map(({ id }) => id), ...released].toSorted());
  expect(findSetbacks(downstream.arrivals, "/events", seqOf)).toEqual([]);
  const { arrivals, duplicates } = downstream.counts();
  console.log(`${stored.length} events, ${load.registered.size} messages registered, ${arrivals} arrivals, ${duplicates} of them repeated`);
});

/** Ids of the events that moved the message's status. */
function movesOf(events: readonly SandboxEvent[]): string[] {
  let state: MessageState = unobserved;
  return events.flatMap(({ id, data }) => {
    const { status } = data as { status: string };
    const step = stepMessage(state, { status, error: null, at: 0 });
    state = step.state;
    return step.transition === null ? [] : [id as string];
  });
}

test("parked events survive kill -9 and are released in order, or ignored when parkFor ended meanwhile", async () => {
  const downstream = await openDownstream();
  const relay = await startRelay({ settings: settingsFor(downstream.url, "1h") });
  const make = createMessages(seed);
  const [kept, lost] = [make.wamid(), make.wamid()];
  const events = (["sent", "delivered", "read"] as const).map((status) => make.status(kept, status));
  for (const event of events.slice(0, 2)) await post(relay, event);
  await relay.kill9();
  await relay.start();
  for (const event of events.slice(2)) await post(relay, event);
  await relay.kill9();
  expect(rowsOf(relay.storePath, "SELECT DISTINCT event FROM queue WHERE state = 2")).toHaveLength(3);

  // Parked by other settings: those of its acceptance count.
  relay.writeSettings(settingsFor(downstream.url, "1500ms"));
  await relay.start();
  const late = make.status(lost, "sent");
  await post(relay, late);
  await relay.kill9();
  const [over] = rowsOf<{ at: number | null }>(relay.storePath, "SELECT max(event), next_at AS at FROM queue WHERE state = 2");
  // No time: it was over before the kill already.
  await until("its time is over", () => Date.now() > (over?.at ?? 0));
  await relay.start();
  const disposition = async () => (await relay.ask(`/v1/events/${late.id}`)).body as { parkedUntil: string | null; routes: unknown[] };
  const ended = await until("it is ended", async () => {
    const seen = await disposition();
    return seen.parkedUntil === null ? seen : null;
  });
  expect(ended.routes).toEqual([
    { route: "all", verdict: "deliver" },
    { route: "events", verdict: "skip", reason: "untracked" },
    { route: "transitions", verdict: "skip", reason: "untracked" },
  ]);

  await register(relay, lost);
  await register(relay, kept);
  const seqOf = new Map(storedEvents(relay.storePath).map(({ id, seq }) => [id as string, seq]));
  for (const path of ["/events", "/transitions"]) {
    await until(`released at ${path}`, () => arrivedAt(downstream.arrivals, path).size >= 3);
    expect(arrivedAt(downstream.arrivals, path)).toEqual(new Set(events.map(({ id }) => id)));
    expect(findSetbacks(downstream.arrivals, path, seqOf)).toEqual([]);
  }
  const next = make.status(lost, "delivered");
  await post(relay, next);
  await until("what comes after the registration is forwarded", () => arrivedAt(downstream.arrivals, "/transitions").has(next.id));
});
