import { expect, test } from "vitest";
import { anEvent, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { storeOf } = storesOnRedis([{ name: "a" }, { name: "b" }]);

test("counts and lists claimed deliveries as waiting, with their age", async () => {
  const store = storeOf("claimed");
  for (let n = 0; n < 5; n += 1) await store.accept(anEvent({ wamid: `w${n}`, receivedAt: start + n }));
  const claims = { now: start + 10, limit: 2, maxBytes: 1_000_000, leaseMs: 60_000, holder: "worker" };
  expect((await store.claim("a", claims)).deliveries.map(({ event }) => event)).toEqual([1, 2]);
  expect(await store.read.backlog()).toContainEqual(
    expect.objectContaining({
      route: "a",
      waiting: 5,
      held: 0,
      dead: 0,
      oldestDueAt: start,
      stopped: null,
      stoppedAt: null,
      deadSince: null,
    }),
  );
  const waiting = await store.read.deliveries.list({ route: "a", state: "waiting", limit: 10 });
  expect(waiting.map(({ event, nextAt }) => [event, nextAt])).toEqual([5, 4, 3, 2, 1].map((event) => [event, start + event - 1]));
});

test("finds the newest waiting deliveries among few and many", async () => {
  const store = storeOf("many");
  const accepted = async (count: number): Promise<void> => {
    await Promise.all(Array.from({ length: count }, (_, n) => store.accept(anEvent({ wamid: `w${count}-${n}` }))));
  };
  const newest = async () => (await store.read.deliveries.list({ state: "waiting", limit: 3 })).map(({ event, route }) => [event, route]);
  await accepted(900);
  expect(await newest()).toEqual([
    [900, "b"],
    [900, "a"],
    [899, "b"],
  ]);
  await accepted(200);
  expect(await newest()).toEqual([
    [1_100, "b"],
    [1_100, "a"],
    [1_099, "b"],
  ]);
});

test("finds a message by any of its names in every account", async () => {
  const store = storeOf("names");
  await store.register([{ account: "one", wamid: "w", id: "the service's", reference: "order 7" }], start);
  await store.register([{ account: "two", wamid: "w" }], start);
  await store.register([{ account: "two", wamid: "x", reference: "order 7" }], start);
  await store.accept(anEvent({ account: "three", wamid: "w" }));
  const found = async (name: string) => (await store.read.messages.find(name)).map(({ account, wamid }) => `${account} ${wamid}`).sort();
  expect(await found("w")).toEqual(["one w", "three w", "two w"]);
  expect(await found("the service's")).toEqual(["one w"]);
  expect(await found("order 7")).toEqual(["one w", "two x"]);
  expect(await found("order 8")).toEqual([]);
});
