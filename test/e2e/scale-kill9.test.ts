// Slow: it kills random processes and Redis in many rounds.
import { writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRandom } from "../../src/sandbox/random.ts";
import { type FlakyDownstream, openFlakyDownstream, type Treatment } from "../harness/flaky-downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { redisForTest, restartRedis } from "../harness/redis-states.ts";
import type { RelayProcess } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { arrivedAt } from "./crash-checks.ts";
import { type Census, findDisorder, findWrongSubjects, takeCensus } from "./scale-checks.ts";
import { startLoad } from "./scale-load.ts";
import { type Killable, startProcesses } from "./scale-processes.ts";

/** bench/scale-soak.ts sets it. */
const rounds = Number(process.env["SCALE_ROUNDS"] ?? soakSize(7, 20));
const postsPerSecond = soakSize(30, 80);
/** Answers between two kills: at least so many, and up to so many more. */
const leastAnswers = postsPerSecond / 4;
const moreAnswers = postsPerSecond;
/** Redis is killed in every fourth round. */
const killsRedis = (round: number) => round % 4 === 2;

/** Some deliveries fail, some hang or are cut off at first, some are slow; some of `/dying` are never taken. */
function treat(path: string, attempt: number, share: number): Treatment {
  if (path === "/dying") return { status: share < 0.3 ? 500 : 200 };
  if (share < 0.01 && attempt === 1) return "hang";
  if (share < 0.02 && attempt === 1) return "reset";
  if (share < 0.06 && attempt <= 2) return { status: 500 };
  if (share > 0.95) return { status: 200, afterMs: 100 + share * 200 };
  return { status: 200 };
}

function settingsFor(redisUrl: string, { url }: FlakyDownstream) {
  const to = { concurrency: 24, timeout: "1500ms" };
  return {
    storage: { driver: "redis", url: redisUrl, commandTimeout: "2s" },
    log: { level: "warn" },
    // Nobody is ever too late to register: whatever was parked must come out.
    tracking: { unknown: "park", parkFor: "1h" },
    routes: [
      routeTo(`${url}/ordered`, { name: "ordered", to }),
      routeTo(`${url}/any`, { name: "any", to: { ...to, order: "none" } }),
      routeTo(`${url}/tracked`, { name: "tracked", match: { tracked: true }, to }),
      routeTo(`${url}/dying`, {
        name: "dying",
        match: { statuses: ["failed", "read"] },
        // Long enough for a 200 to arrive on a machine that is busy: dead is only what was refused.
        to: { ...to, timeout: "10s", retry: { schedule: ["0s", "100ms", "200ms"], jitter: 0 } },
      }),
    ],
  };
}

interface Stats {
  readonly dispositions: { readonly accepted: number };
  readonly deliveries: Readonly<Record<"waiting" | "held" | "delivered" | "dead", number>>;
}

/** Events that wait to be planned, and deliveries that wait or are held. */
async function openAt(relay: RelayProcess): Promise<number> {
  const { status, body } = await relay.ask("/v1/stats");
  if (status !== 200) return Number.NaN;
  const { dispositions, deliveries } = body as Stats;
  return dispositions.accepted + deliveries.waiting + deliveries.held;
}

const missing = (wanted: Iterable<string>, found: { has(id: string): boolean }) => [...wanted].filter((id) => !found.has(id));

/** Every event is accounted for, by its rules and by what the downstream saw; gives the stored events' seqs by id. */
function expectAccounted(census: Census, downstream: FlakyDownstream): Map<string, number> {
  const { events, deliveries, subjects } = census;
  const real = events.filter(({ id }) => id !== null);
  const seqOf = new Map(real.map(({ id, seq }) => [id as string, seq]));
  expect(seqOf.size, "an id was planned twice").toBe(real.length);
  const isRegistered = (name: string | null) => name !== null && (subjects.get(name)?.registeredAt ?? null) !== null;
  const wanted: Record<string, number[]> = {
    ordered: real.map(({ seq }) => seq),
    any: real.map(({ seq }) => seq),
    tracked: real.filter(({ subject }) => isRegistered(subject)).map(({ seq }) => seq),
    dying: real.filter(({ status }) => status === "failed" || status === "read").map(({ seq }) => seq),
  };
  const idOf = new Map(real.map(({ id, seq }) => [seq, id as string]));
  for (const [route, seqs] of Object.entries(wanted)) {
    const planned = deliveries.filter((one) => one.route === route).map(({ seq }) => seq);
    expect(
      planned.sort((a, b) => a - b),
      `deliveries of ${route}`,
    ).toEqual(seqs);
    const arrived = arrivedAt(downstream.arrivals, `/${route}`);
    expect(
      missing(
        seqs.map((seq) => idOf.get(seq) as string),
        arrived,
      ),
      `never arrived at ${route}`,
    ).toEqual([]);
    expect(arrived.size, `arrived at ${route}`).toBe(seqs.length);
  }
  expect(deliveries.filter(({ route }) => wanted[route] === undefined)).toEqual([]);
  const taken = new Set(downstream.arrivals.filter(({ answered }) => answered === 200).map(({ path, eventId }) => `${path} ${eventId}`));
  const wrong = deliveries.filter(({ seq, route, state }) => {
    const wasTaken = taken.has(`/${route} ${idOf.get(seq)}`);
    return wasTaken ? state !== "2" : state !== "3" || route !== "dying";
  });
  expect(wrong, "another state than the downstream's answers make").toEqual([]);
  expect(deliveries.filter(({ attempts }) => attempts < 1)).toEqual([]);
  // Parked for all who did not register, and for nobody else.
  const parked = real.filter(({ parkedUntil }) => parkedUntil !== null);
  expect(parked.filter(({ subject }) => isRegistered(subject))).toEqual([]);
  expect(parked.length).toBeGreaterThan(0);
  expect(findWrongSubjects(census)).toEqual([]);
  expect(census.openLists, "lists of what is still to be done").toEqual([]);
  expect(
    events.filter(({ disposition }) => disposition === "accepted"),
    "never planned",
  ).toEqual([]);
  return seqOf;
}

/** The commands that people ask, against a receiver and without one. */
async function expectAnswers(relay: RelayProcess, wamid: string): Promise<void> {
  const audit = await relay.ask("/v1/audit?wait=20");
  expect(audit).toMatchObject({ status: 200, body: { balanced: true } });
  const said = await runHere(["audit", "--config", relay.settingsPath]);
  expect(said, said.out + said.err).toMatchObject({ code: 0 });
  const listed = await runHere(["events", "list", "--config", relay.settingsPath, "--limit", "5", "--json"]);
  expect(listed.code, listed.err).toBe(0);
  const explained = await runHere(["explain", wamid, "--config", relay.settingsPath]);
  expect(explained.code, explained.err).toBe(0);
  expect(explained.out).toContain("ordered");
}

test(
  `${rounds} rounds of kill -9 of random processes and Redis lose nothing, plan nothing twice and keep the order`,
  async () => {
    const random = createRandom(seed);
    const downstream = await openFlakyDownstream(treat);
    let redis = await redisForTest({ appendonly: "always" });
    const processes = await startProcesses(2, 3, settingsFor(redis.url, downstream));
    const receivers = processes.filter(({ role }) => role === "receive").map(({ relay }) => relay) as [RelayProcess, RelayProcess];
    const load = startLoad(receivers, String(seed), postsPerSecond);

    const killed = { receive: 0, work: 0, redis: 0 };
    const healedMs: number[] = [];
    const moments = random.fork("moments");
    for (let round = 0; round < rounds; round += 1) {
      // By posts as well as by time, so that there is load on a slow machine too.
      const moment = load.answered() + leastAnswers + moments.below(moreAnswers);
      await until("the load is on", () => load.answered() >= moment);
      await wait(moments.below(100));
      const victims = new Set<Killable>();
      const most = moments.pick([1, 1, 1, 2, 2, 3]);
      while (victims.size < most) victims.add(processes[moments.below(processes.length)] as Killable);
      for (const { role } of victims) killed[role] += 1;
      const deaths = [...victims].map((victim) => victim.kill());
      if (killsRedis(round)) {
        await redis.kill();
        await wait(moments.below(800));
        redis = await restartRedis(redis, { appendonly: "always" });
        const back = Date.now();
        killed.redis += 1;
        await until("events are taken again", () => load.lastAnswerAt() > back);
        healedMs.push(Date.now() - back);
      }
      await Promise.all(deaths);
      // Some are killed again while they start.
      if (moments.chance(0.7)) await Promise.all(processes.map((one) => one.ready()));
    }
    await Promise.all(processes.map((one) => one.ready()));
    const last = load.answered() + 100;
    await until("the load is on again", () => load.answered() >= last);
    await load.stop();

    const calm = Date.now();
    await until("every delivery is made", async () => (await openAt(receivers[0])) === 0);
    const settledMs = Date.now() - calm;
    const census = await takeCensus(redis.url);
    const seqOf = expectAccounted(census, downstream);

    // Every id that got a 2xx is stored, and was said to be new once at most (the answer may have got lost).
    expect(load.accepted.size).toBeGreaterThan((rounds * postsPerSecond) / 2);
    expect(missing(load.accepted.keys(), seqOf)).toEqual([]);
    expect([...load.accepted].filter(([, times]) => times > 1)).toEqual([]);
    expect(census.events.length - seqOf.size).toBeGreaterThanOrEqual(load.quarantined());
    const registered = new Set([...census.subjects].filter(([, row]) => row.registeredAt !== null).map(([name]) => name));
    expect(load.registered.size).toBeGreaterThan(rounds);
    expect(
      missing(
        [...load.registered].map((wamid) => `m:main:${wamid}`),
        registered,
      ),
    ).toEqual([]);
    // In order per message: a killed worker's deliveries go out again before what came after them.
    for (const route of ["ordered", "tracked", "dying"]) expect(findDisorder(census, downstream.arrivals, route, seqOf)).toEqual([]);
    await expectAnswers(receivers[0], [...load.registered][0] as string);

    // The pipes are alive: what is posted now comes out at once, and all end in order.
    const event = createMessages(`${seed} after`).event();
    expect((await postEvent(receivers[1].webhookUrl, event)).word).toBe("accepted");
    await until("the new event is delivered", () => downstream.arrivals.filter(({ eventId }) => eventId === event.id).length >= 2);
    const ends = await Promise.all(processes.map(({ relay }) => relay.stop()));
    expect(ends).toEqual(processes.map(() => ({ code: 0, signal: null })));
    const { arrivals, duplicates: repeats } = downstream.counts();
    const report = { acknowledged: load.accepted.size, refused: load.refused(), killed, healedMs, arrivals, repeats, settledMs };
    console.log(JSON.stringify(report));
    const file = process.env["SCALE_REPORT"];
    if (file !== undefined) writeFileSync(file, JSON.stringify(report));
  },
  300_000 + rounds * 12_000,
);
