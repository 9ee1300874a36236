import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { deliveries, queue } from "../../../src/store/schema/tables.ts";
import { emptyShared, type OneStore } from "../../contract/one-store.ts";
import { anEvent, rulesFor } from "../../contract/store-events.ts";
import { until } from "../../harness/until.ts";
import { type AttemptMade, quick, startWorker, type Worker } from "./leased-workers.ts";

const routes = ["a", "b", "c", "d", "e"];
const rules = rulesFor(
  routes.map((name) => ({ name })),
  { unknown: "forward" },
);
const messages = 10;

let made = 0;
/** Each message gets `statuses` events, in order: their ids say which is the how manieth. */
async function accept(store: OneStore, statuses: number): Promise<number> {
  const run = made++;
  for (let status = 0; status < statuses; status += 1) {
    const events = Array.from({ length: messages }, (_, message) =>
      anEvent({
        id: `${run}-${message}-${status}`,
        wamid: `wamid.${run}.${message}`,
        receivedAt: Date.now(),
        data: { status },
      }),
    );
    await store.accept(events);
  }
  return statuses * messages * routes.length;
}

const settled = async (store: OneStore) => (await store.rows(deliveries)).length;
const sizes = (workers: readonly Worker[]) => workers.map(({ held }) => held.size).toSorted();

/** Of a message and route, no event goes out before those in front of it have. */
function expectOrder(attempts: readonly AttemptMade[]): void {
  const next = new Map<string, number>();
  for (const { route, eventId } of attempts) {
    const [run, message, status] = eventId.split("-");
    const lane = `${route} ${run} ${message}`;
    expect(Number(status), lane).toBeLessThanOrEqual(next.get(lane) ?? 0);
    next.set(lane, Math.max(next.get(lane) ?? 0, Number(status) + 1));
  }
}

test("workers share the routes evenly, also with one that comes and one that leaves", async () => {
  await using shared = await emptyShared();
  const store = await shared.open(rules);
  const attempts: AttemptMade[] = [];
  const start = (name: string) => startWorker(shared, rules, { name, routes, attempts });
  const first = await start("one");
  await until("one worker has all", () => first.held.size === routes.length);
  const expected = await accept(store, 3);
  const second = await start("two");
  await until("two workers share", () => sizes([first, second]).join() === "2,3");
  const third = await start("three");
  await until("three workers share", () => sizes([first, second, third]).join() === "1,2,2");
  await first.close();
  expect(first.held.size).toBe(0);
  await until("two are left", () => sizes([second, third]).join() === "2,3");
  const more = expected + (await accept(store, 3));
  await until("all is delivered", async () => (await settled(store)) === more);
  expect(attempts).toHaveLength(more);
  expectOrder(attempts);
  for (const worker of [second, third]) await worker.close();
  expect([first, second, third].flatMap(({ faults }) => faults)).toEqual([]);
});

test("the routes of a worker that died go on elsewhere, in order", async () => {
  await using shared = await emptyShared();
  const store = await shared.open(rules);
  const attempts: AttemptMade[] = [];
  const dying = await startWorker(shared, rules, { name: "dying", routes, attempts, tookMs: 5 });
  const living = await startWorker(shared, rules, { name: "living", routes, attempts, tookMs: 5 });
  await until("both work", () => sizes([dying, living]).join() === "2,3");
  await Promise.all([dying.hurry(), living.hurry()]);
  const expected = await accept(store, 6);
  await until(
    "the first are delivered",
    () => attempts.filter(({ worker }) => worker === "dying").length >= 20,
  );
  dying.stop();
  const stoppedAt = performance.now();
  const lost = new Set(dying.held.keys());
  await until("all is delivered", async () => (await settled(store)) === expected);
  await until("the living one has all", () => living.held.size === routes.length);
  // Nothing of its routes went out before it had stopped for certain.
  const taken = attempts.filter(
    ({ worker, route, at }) => worker === "living" && lost.has(route) && at > stoppedAt,
  );
  expect(taken.length).toBeGreaterThan(0);
  expect(Math.min(...taken.map(({ at }) => at))).toBeGreaterThan(dying.beatAt() + quick.deadlineMs);
  expectOrder(attempts);
  expect(await store.rows(queue)).toEqual([]);
  await living.close();
  dying.go();
  await dying.close();
});

test("a worker that stood still begins no attempt of a route that it has lost", async () => {
  await using shared = await emptyShared();
  const store = await shared.open(rules);
  const attempts: AttemptMade[] = [];
  const frozen = await startWorker(shared, rules, { name: "frozen", routes, attempts, tookMs: 5 });
  await until("it works", () => frozen.held.size === routes.length);
  await frozen.hurry();
  const expected = await accept(store, 6);
  await until("the first are delivered", () => attempts.length >= 20);
  frozen.stop();
  await wait(quick.deadAfterMs + 4 * quick.beatMs);
  // Slow, so that most still wait when the first one wakes.
  const other = await startWorker(shared, rules, { name: "other", routes, attempts, tookMs: 100 });
  await other.hurry();
  await until(
    "the other works on all",
    () =>
      new Set(attempts.filter(({ worker }) => worker === "other").map(({ route }) => route))
        .size === routes.length,
  );
  const own = () => attempts.filter(({ worker }) => worker === "frozen");
  const before = own().length;
  frozen.go();
  await until("it has its share again", () => own().length > before);
  await until("all is delivered", async () => (await settled(store)) === expected);
  expect(
    own()
      .slice(0, before)
      .every(({ epoch }) => epoch === 1),
  ).toBe(true);
  expect(
    own()
      .slice(before)
      .every(({ epoch }) => epoch > 1),
  ).toBe(true);
  expectOrder(attempts);
  for (const worker of [frozen, other]) await worker.close();
});

test("two workers share the shards of a route, and go on in order with another number of shards and when one stands still", async () => {
  await using shared = await emptyShared();
  const store = await shared.open(rulesFor([{ name: "a" }], { unknown: "forward" }));
  const attempts: AttemptMade[] = [];
  const [one, two] = await Promise.all(
    ["one", "two"].map((name) =>
      startWorker(shared, rules, { name, routes: ["a"], attempts, tookMs: 3, shards: 2 }),
    ),
  );
  if (one === undefined || two === undefined) throw new Error("no workers");
  const held = () => [one, two].map((worker) => [...worker.held.keys()].join()).toSorted();
  const expected: number[] = [];
  const acceptSome = async () => expected.push((await accept(store, 8)) / routes.length);
  const sum = () => expected.reduce((all, n) => all + n, 0);
  await until("each has one", () => held().join(" ") === "a#0/2 a#1/2");
  await acceptSome();
  await until("both deliver", () => new Set(attempts.map(({ worker }) => worker)).size === 2);

  // One of them first, as in a rolling restart.
  one.reload(3);
  await acceptSome();
  await wait(quick.beatMs * 3);
  expect([...two.held.keys()].filter((name) => name.endsWith("/3"))).toEqual([]);
  two.reload(3);
  await until(
    "three shards have holders",
    () => one.held.size + two.held.size === 3 && held().join().includes("/3"),
  );
  await acceptSome();
  await until("all is delivered", async () => (await settled(store)) === sum());
  expect(attempts).toHaveLength(sum());

  await Promise.all([one.hurry(), two.hurry()]);
  two.stop();
  await acceptSome();
  await until("one worker has all", () => one.held.size === 3);
  expect([...one.dispatcher.states().keys()]).toEqual(["a"]);
  await until("all is delivered", async () => (await settled(store)) === sum());
  two.go();
  expectOrder(attempts);
  await Promise.all([one.close(), two.close()]);
});
