import { expect, test } from "vitest";
import type { OpenSubject } from "./contract-store.ts";
import { accept, dead, delivered, later, openWith, settle } from "./contract-tools.ts";
import { start } from "./store-events.ts";

export function settlingContract(open: OpenSubject): void {
  test("long groups have the right count, oldest and newest, also of some events only", async () => {
    const { store } = await openWith(open, [{ name: "all", order: "none" }], {
      unknown: "forward",
    });
    const second = (n: number) => start + n * 1_000;
    // More than one read takes at once; some at a time, because planning looks through all that
    // wait.
    const numbers = Array.from({ length: 420 }, (_, n) => n);
    const ends = (n: number) => (n < 2 ? delivered : n < 12 ? later(second(2_000)) : dead);
    const seqs: number[] = [];
    for (let from = 0; from < numbers.length; from += 30) {
      const some = numbers.slice(from, from + 30).map((n) => {
        return accept(store, {
          wamid: `w-${n}`,
          status: "failed",
          errorCode: n % 3 === 0 ? "131026" : "131049",
          receivedAt: second(n),
        });
      });
      const accepted = await Promise.all(some);
      await Promise.all(
        accepted.map((seq, n) => settle(store, "all", seq, ends(from + n), { status: 503 })),
      );
      seqs.push(...accepted);
    }
    const groups = async (filter: object) =>
      (await store.read.groupDeliveries(filter)).map(
        ({ state, cause, count, oldestAt, newestAt }) => [state, cause, count, oldestAt, newestAt],
      );
    expect((await groups({})).toSorted()).toEqual([
      ["dead", "503", 408, second(12), second(419)],
      ["waiting", "503", 10, second(2), second(11)],
    ]);
    expect((await groups({ errorCode: "131026" })).toSorted()).toEqual([
      ["dead", "503", 136, second(12), second(417)],
      ["waiting", "503", 3, second(3), second(9)],
    ]);
    expect((await groups({ from: second(5), to: second(14) })).toSorted()).toEqual([
      ["dead", "503", 2, second(12), second(13)],
      ["waiting", "503", 7, second(5), second(11)],
    ]);
    const listed = await store.read.listDeliveries({
      state: "dead",
      errorCode: "131026",
      from: second(100),
      limit: 1_000,
    });
    const expected = seqs.filter((_, n) => n >= 100 && n % 3 === 0).toSorted((a, b) => b - a);
    expect(listed.map(({ event }) => event)).toEqual(expected);
  });

  test("stores each attempt with its answer or its error", async () => {
    const subject = await openWith(open, [{ name: "all" }]);
    const seq = await accept(subject.store, { wamid: "w" });
    await settle(subject.store, "all", seq, later(start + 10), { status: 503 });
    await subject.store.settle({
      route: "all",
      event: seq,
      attempt: {
        number: 2,
        at: start + 10,
        tookMs: 15_000.4,
        result: { kind: "failed", error: "timeout" },
        response: null,
      },
      settled: later(start + 20),
      at: start + 15_010,
    });
    const store = await subject.reopen();
    expect(await store.load("all", seq)).toMatchObject({ attempts: 2, spent: 2, replays: 0 });
    await settle(store, "all", seq, delivered, { at: start + 20_000 });
    const delivery = await store.delivery(seq, "all");
    expect(delivery).toMatchObject({
      state: "delivered",
      attempts: 3,
      nextAt: null,
      settledAt: start + 20_000,
      reason: null,
    });
    expect(delivery?.attemptHistory).toMatchObject([
      { number: 1, status: 503, error: null, response: "answer 503" },
      { number: 2, status: null, error: "timeout", response: null, tookMs: 15_000 },
      { number: 3, status: 200, error: null },
    ]);
    expect(await store.load("all", seq)).toBeNull();
  });

  test("a queued delivery has neither status nor error, and an attempt during an outage is not counted as spent", async () => {
    const subject = await openWith(open, [{ name: "all" }]);
    const seq = await accept(subject.store, { wamid: "w" });
    const attempt = { at: start, tookMs: 1, response: null };
    const down = { kind: "failed", error: "unreachable" } as const;
    await subject.store.settle({
      route: "all",
      event: seq,
      attempt: { ...attempt, number: 1, result: down },
      settled: { to: "waiting", nextAt: start + 5_000, spares: true },
      at: start,
    });
    expect(await subject.store.load("all", seq)).toMatchObject({ attempts: 1, spent: 0 });
    await subject.store.settle({
      route: "all",
      event: seq,
      attempt: { ...attempt, number: 2, result: { kind: "taken" } },
      settled: { to: "delivered" },
      at: start + 5_000,
    });
    expect(await subject.store.delivery(seq, "all")).toMatchObject({
      state: "delivered",
      attempts: 2,
      attemptHistory: [
        { number: 1, status: null, error: "unreachable" },
        { number: 2, status: null, error: null },
      ],
    });
  });

  test("a dead letter has a reason, and a retry restarts its schedule under the same id", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    const seq = await accept(store, { wamid: "w" });
    await settle(store, "all", seq, later(start));
    await settle(store, "all", seq, dead);
    const died = await store.delivery(seq, "all");
    expect(died).toMatchObject({ state: "dead", reason: "out of attempts", attempts: 2 });
    expect(await store.retry(seq, "all", start + 9)).toMatchObject({
      state: "waiting",
      due: { route: "all", event: seq, at: start + 9 },
    });
    expect(await store.load("all", seq)).toMatchObject({ attempts: 2, spent: 0, replays: 1 });
    expect(await store.delivery(seq, "all")).toMatchObject({
      id: died?.id,
      state: "waiting",
      reason: null,
      settledAt: null,
    });
    expect([
      await store.retry(seq + 1, "all", start),
      await store.retry(seq, "nowhere", start),
    ]).toEqual([null, null]);
    await settle(store, "all", seq, delivered);
    expect((await store.delivery(seq, "all"))?.attemptHistory.map(({ number }) => number)).toEqual([
      1, 2, 3,
    ]);
  });

  test("an event has the cause of a dead delivery before that of a waiting one, and none of a delivered one", async () => {
    const { store } = await openWith(open, [{ name: "a" }, { name: "b" }, { name: "c" }]);
    const seq = await accept(store, { wamid: "w" });
    const counts = async () => (await store.read.countDeliveries([seq])).get(seq);
    expect(await counts()).toEqual({ deliveries: { waiting: 3 }, cause: null });
    for (const route of ["a", "b"])
      await settle(store, route, seq, later(start + 10), { status: route === "a" ? 429 : 503 });
    expect(await counts()).toEqual({ deliveries: { waiting: 3 }, cause: "429" });
    await settle(store, "b", seq, dead, { status: 502 });
    expect(await counts()).toEqual({ deliveries: { waiting: 2, dead: 1 }, cause: "502" });
    for (const route of ["a", "c"]) await settle(store, route, seq, delivered);
    expect(await counts()).toEqual({ deliveries: { delivered: 2, dead: 1 }, cause: "502" });
    await store.retry(seq, "b", start + 20);
    await settle(store, "b", seq, delivered);
    expect(await counts()).toEqual({ deliveries: { delivered: 3 }, cause: null });
  });

  test("lists and replays apart those of which no attempt failed", async () => {
    const { store } = await openWith(open, [{ name: "all", order: "none" }]);
    const [failed = 0, fresh = 0] = [
      await accept(store, { wamid: "a" }),
      await accept(store, { wamid: "b" }),
    ];
    await settle(store, "all", failed, later(start + 60_000));
    const listed = async (cause: string | null) =>
      (await store.read.listDeliveries({ state: "waiting", cause, limit: 10 })).map(
        ({ event }) => event,
      );
    expect(await listed("500")).toEqual([failed]);
    expect(await listed(null)).toEqual([fresh]);
    // Before it is due, because what is due goes out without a replay.
    const { due } = await store.replay({ states: ["waiting"], cause: null }, start - 10);
    expect(due.map(({ event }) => event)).toEqual([fresh]);
  });

  test("a stopped destination keeps its reason and its deliveries until it is resumed", async () => {
    const subject = await openWith(open, [{ name: "all" }, { name: "other" }]);
    const seq = await accept(subject.store, { wamid: "w" });
    await settle(subject.store, "all", seq, later(start), {
      status: 410,
      stop: "the destination answered 410 (gone)",
    });
    const store = await subject.reopen();
    expect(await store.stopReason("all")).toBe("the destination answered 410 (gone)");
    expect(await store.stopReason("other")).toBeNull();
    expect(await store.due("all", start, 10)).toEqual([seq]);
    expect(await store.resume("all")).toBe(true);
    expect(await store.resume("all")).toBe(false);
    expect(await store.resume("nowhere")).toBe(false);
    expect(await store.stopReason("all")).toBeNull();
  });
}
