// @module-tag slow: it kills the relay at many random moments.
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRandom, type Random } from "../../src/sandbox/ids.ts";
import { openDownstream } from "../harness/downstream.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { relayToken, routeTo } from "../harness/relay-settings.ts";
import { openSender, signedPosts, untilItIsBack } from "../harness/sender.ts";
import { soakSize } from "../harness/soak.ts";
import { integrityOf, rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { arrivedAt, findSetbacks, findWrongStates, storedEvents } from "./crash-checks.ts";

const kills = soakSize(8, 30);

function settingsFor(downstreamUrl: string) {
  return {
    log: { level: "warn" },
    // Nobody is ever too late to register: whatever was parked must come out.
    tracking: { unknown: "park", parkFor: "1h" },
    routes: [
      routeTo(`${downstreamUrl}/ordered`, { name: "ordered", to: { concurrency: 32 } }),
      routeTo(`${downstreamUrl}/any`, { name: "any", to: { concurrency: 32, order: "none" } }),
      routeTo(`${downstreamUrl}/tracked`, { name: "tracked", match: { tracked: true } }),
      routeTo(`${downstreamUrl}/transitions`, {
        name: "transitions",
        match: { tracked: true },
        emit: "transitions",
      }),
    ],
  };
}

/**
 * Whether all are acknowledged: as one list, or as lines of one stream, of which a crash cuts the
 * report.
 */
async function register(
  { url }: RelayProcess,
  wamids: readonly string[],
  asLines: boolean,
): Promise<boolean> {
  const list = wamids.map((wamid) => ({ account: "main", wamid, reference: `order of ${wamid}` }));
  const answer = await fetch(`${url}/v1/messages/track`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${relayToken}`,
      "content-type": `application/${asLines ? "x-ndjson" : "json"}`,
    },
    body: asLines ? list.map((one) => `${JSON.stringify(one)}\n`).join("") : JSON.stringify(list),
  }).catch(() => null);
  const report = (await answer?.text().catch(() => "")) ?? "";
  if (answer?.status !== 200 || !asLines) return answer?.status === 200;
  const last = JSON.parse(report.trimEnd().split("\n").at(-1) || "{}");
  if (last.lines === wamids.length) expect(last).toMatchObject({ conflict: 0, invalid: 0 });
  return last.lines === wamids.length;
}

/**
 * Registers messages a few at a time, whether the relay is up or not, until told to stop; gives
 * those whose registration was acknowledged.
 */
async function registerSome(
  relay: RelayProcess,
  wamids: readonly string[],
  random: Random,
  over: AbortSignal,
): Promise<Set<string>> {
  const acknowledged = new Set<string>();
  for (let from = 0; from < wamids.length || !over.aborted; ) {
    const batch = wamids.slice(from, from + 50);
    if (batch.length > 0 && (await register(relay, batch, random.chance(0.3)))) {
      for (const wamid of batch) acknowledged.add(wamid);
      from += batch.length;
    }
    await wait(50);
  }
  return acknowledged;
}

const missing = (wanted: Iterable<string>, found: { has(id: string): boolean }) =>
  [...wanted].filter((id) => !found.has(id));

test(`${kills} kills -9 at random moments under load lose nothing, plan nothing twice and keep the order`, async () => {
  const random = createRandom(seed);
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({ settings: settingsFor(downstream.url) });
  const sender = openSender(relay, { concurrency: 32, rate: 500, retry: untilItIsBack });

  const over = new AbortController();
  const ours: string[] = [];
  let answered = 0;
  let triedAgain = 0;
  const chosen = random.fork("registered");
  const posts = signedPosts(seed);
  const sending = sender.run(posts, {
    signal: over.signal,
    onResult(post, { tries }) {
      answered += 1;
      triedAgain += tries - 1;
      const { wamid } = post.subject;
      if (wamid !== null && post.sort === "status" && chosen.chance(0.2) && !ours.includes(wamid))
        ours.push(wamid);
    },
  });
  const registering = registerSome(relay, ours, random.fork("registering"), over.signal);

  const moments = random.fork("moments");
  for (let killed = 0; killed < kills; killed += 1) {
    // Some while it is still starting: migrating, recovering the write-ahead log, or sending the
    // first deliveries again.
    if (moments.chance(0.2)) {
      await relay.kill9();
      const starting = relay.start().catch(() => null);
      await wait(moments.below(600));
      await relay.kill9();
      await starting;
      await relay.start();
    }
    // By events as well as by time, so that there is load on a slow machine too.
    const moment = answered + 10 + moments.below(150);
    await until("the load is on", () => answered >= moment);
    await wait(moments.below(30));
    await relay.kill9();
    await relay.start();
  }
  const last = answered + 200;
  await until("the load is on again", () => answered >= last);
  over.abort();
  const summary = await sending;
  const registered = await registering;

  const open = () =>
    rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM queue WHERE state <> 2")[0]
      ?.n;
  await until("every delivery is made", () => open() === 0);

  // Every id that got a 2xx is in the file, exactly once, and was delivered.
  const stored = storedEvents(relay.storePath);
  const seqOf = new Map(stored.flatMap(({ id, seq }) => (id === null ? [] : [[id, seq] as const])));
  expect(seqOf.size).toBe(stored.filter(({ id }) => id !== null).length);
  const acknowledged = [...sender.acknowledged.keys()];
  const wanted = new Set(acknowledged);
  expect(wanted.size).toBeGreaterThan(kills * 50);
  expect(missing(wanted, seqOf)).toEqual([]);
  expect([...sender.acknowledged.values()].filter(({ accepted }) => accepted > 1)).toEqual([]);
  for (const path of ["/ordered", "/any"])
    expect(missing(wanted, arrivedAt(downstream.arrivals, path))).toEqual([]);
  expect(stored.length - seqOf.size).toBeGreaterThanOrEqual(summary.quarantined);

  // Registrations that were acknowledged hold, and release every event of theirs.
  expect(registered.size).toBeGreaterThan(kills * 3);
  const known = new Set(
    stored.filter((event) => event.registered).map(({ wamid }) => wamid as string),
  );
  expect(missing(registered, known)).toEqual([]);
  const ofRegistered = stored.filter((event) => event.registered).map(({ id }) => id as string);
  expect(ofRegistered.length).toBeGreaterThan(registered.size);
  const tracked = arrivedAt(downstream.arrivals, "/tracked");
  expect(missing(ofRegistered, tracked)).toEqual([]);
  expect(tracked.size).toBe(ofRegistered.length);
  const transitions = stored
    .filter((event) => event.registered && event.moved)
    .map(({ id }) => id as string);
  expect(arrivedAt(downstream.arrivals, "/transitions")).toEqual(new Set(transitions));

  // In order per message, repetitions included.
  for (const path of ["/ordered", "/tracked", "/transitions"])
    expect(findSetbacks(downstream.arrivals, path, seqOf)).toEqual([]);

  // Planned once: a delivery per route and event, and none besides.
  const planned = rowsOf<{ route: string; n: number; events: number }>(
    relay.storePath,
    "SELECT route, count(*) AS n, count(DISTINCT event) AS events FROM deliveries GROUP BY route ORDER BY route",
  );
  expect(planned).toEqual([
    { route: "any", n: seqOf.size, events: seqOf.size },
    { route: "ordered", n: seqOf.size, events: seqOf.size },
    { route: "tracked", n: ofRegistered.length, events: ofRegistered.length },
    { route: "transitions", n: transitions.length, events: transitions.length },
  ]);
  expect(findWrongStates(relay.storePath)).toEqual([]);
  // What the secret proved was counted with the events, neither before nor after.
  expect(
    rowsOf(
      relay.storePath,
      "SELECT sum(n) AS events FROM counters WHERE at = 0 AND series = 'secret'",
    ),
  ).toEqual([{ events: stored.length }]);
  expect(integrityOf(relay.storePath)).toBe("ok");

  // What nobody registered waits still, and nothing else does: who registers now gets it, through
  // all those crashes.
  const waiting = rowsOf<{ wamid: string }>(
    relay.storePath,
    "SELECT DISTINCT s.name AS wamid FROM queue q JOIN subjects s ON s.seq = q.lane WHERE q.state = 2 AND s.type = 0",
  ).map(({ wamid }) => wamid);
  const unregistered = stored.filter((event) => event.wamid !== null && !event.registered);
  expect(new Set(waiting)).toEqual(new Set(unregistered.map(({ wamid }) => wamid as string)));
  const late = new Set<string | null>(waiting.slice(0, 50));
  expect(await register(relay, waiting.slice(0, 50), true)).toBe(true);
  const released = unregistered
    .filter(({ wamid }) => late.has(wamid))
    .map(({ id }) => id as string);
  await until(
    "what waited is released",
    () => arrivedAt(downstream.arrivals, "/tracked").size >= ofRegistered.length + released.length,
  );
  expect(missing(released, arrivedAt(downstream.arrivals, "/tracked"))).toEqual([]);
  expect(findSetbacks(downstream.arrivals, "/tracked", seqOf)).toEqual([]);

  // The pipe is alive: what is posted now comes out at once, and it ends in order.
  const event = createMessages(`${seed} after`).event();
  expect(await sender.post(postOf(event))).toMatchObject({ answer: "accepted" });
  await until(
    "the new event is delivered",
    () => downstream.arrivals.filter(({ eventId }) => eventId === event.id).length === 2,
  );
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
  const { arrivals, duplicates } = downstream.counts();
  console.log(
    `${wanted.size} events acknowledged, ${triedAgain} tries more than posts, ${arrivals} arrivals, ${duplicates} of them repeated`,
  );
});
