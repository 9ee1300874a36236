import { afterEach, beforeEach, expect, test } from "vitest";
import { proxyRoute, type Settlement } from "../../src/model/delivery.ts";
import { backlog } from "../../src/store/read/stats.ts";
import {
  attempts,
  counters,
  deliveries,
  queue,
  queueState,
  settledState,
} from "../../src/store/schema/tables.ts";
import { exchangeMs } from "../../src/store/work/plans.ts";
import type { OneStore, OpenStore } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";
import { storeOn } from "./store-on-database.ts";

const route = proxyRoute("main");
const rules = rulesFor([{ name: "all" }], { unknown: "forward" });

const settlement = (event: number, status: number): Settlement => ({
  route,
  event,
  attempt: {
    number: 1,
    at: start,
    tookMs: 20,
    result: { kind: "answered", status, retryAfterMs: null },
    response: null,
  },
  settled: status === 200 ? { to: "delivered" } : { to: "dead", reason: "proxied: 500" },
  at: start + 20,
  receivedAt: start,
});

export function oneStoreExchangesContract(open: OpenStore): void {
  let opened: OneStore;
  let store: ReturnType<typeof storeOn>;
  beforeEach(async () => {
    opened = await open(rules);
    store = storeOn(opened, rules);
  });
  afterEach(() => opened[Symbol.asyncDispose]());

  const begin = async (count: number) => {
    const outcomes = await opened.accept(
      Array.from({ length: count }, () => anEvent()),
      route,
    );
    return outcomes.map(({ seq }) => seq);
  };

  test("are settled once by their process, with their attempt", async () => {
    const [one = 0, two = 0] = await begin(2);
    expect(await store.settleExchange(settlement(one, 200))).toEqual({
      result: "settled",
      released: null,
    });
    expect(await store.settleExchange(settlement(two, 500))).toEqual({
      result: "settled",
      released: null,
    });
    expect(await store.settleExchange(settlement(one, 200))).toEqual({ result: "late" });
    const settled = (await opened.rows(deliveries)).map(({ event, route, state, account }) => [
      event,
      route,
      state,
      account,
    ]);
    expect(settled).toEqual([
      [one, route, settledState.delivered, "main"],
      [two, route, settledState.dead, "main"],
    ]);
    expect((await opened.rows(queue)).map((row) => [row.route, row.state])).toEqual([
      ["all", queueState.waiting],
      ["all", queueState.waiting],
    ]);
  });

  test("wait without being due, and end as dead letters when their process has died", async () => {
    const [answered = 0, ...left] = await begin(4);
    expect(await opened.due(route, start + exchangeMs)).toEqual([]);
    await store.settleExchange(settlement(answered, 200));
    expect(await opened.read(backlog())).toMatchObject([
      { route: "all", waiting: 4, oldestDueAt: start },
      { route, waiting: 3, oldestDueAt: null },
    ]);
    // A process that is alone finds only those of a process before it.
    if (opened.writer !== "")
      expect(await store.endLeftExchanges(start + exchangeMs - 1, "stopped")).toBe(0);
    expect(await store.endLeftExchanges(start + exchangeMs, "stopped")).toBe(3);
    expect(await store.endLeftExchanges(start + exchangeMs, "stopped")).toBe(0);
    expect(await store.settleExchange(settlement(left[0] ?? 0, 200))).toEqual({ result: "late" });
    const dead = (await opened.rows(deliveries)).filter(({ state }) => state === settledState.dead);
    expect(
      dead.map(({ event, reason, attempts, settled_at }) => [event, reason, attempts, settled_at]),
    ).toEqual(left.map((event) => [event, "stopped", 0, start + exchangeMs]));
    expect(await opened.rows(attempts)).toEqual([]);
    expect((await opened.rows(counters)).find(({ series }) => series === "dead")).toMatchObject({
      of: route,
      n: 3,
    });
    expect(await opened.read(backlog())).toMatchObject([
      { route: "all" },
      { route, waiting: 0, dead: 3, deadSince: start + exchangeMs },
    ]);
  });
}
