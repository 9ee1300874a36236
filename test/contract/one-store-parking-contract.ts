import { afterEach, beforeEach, expect, test } from "vitest";
import { dispositions } from "../../src/model/states.ts";
import type { Rules } from "../../src/store/port.ts";
import {
  counters,
  events,
  never,
  plans,
  queue,
  queueState,
  state,
  subjects,
} from "../../src/store/schema/tables.ts";
import { rows } from "../../src/store/sql/ops.ts";
import { sql } from "../../src/store/sql/sql.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, type RouteParts, rulesFor, start } from "./store-events.ts";

const parkFor = 60_000;
const tracked = { name: "ours", match: { tracked: true } };
const routes = [tracked, { name: "all" }];
const registration = { account: "main", wamid: "w", reference: "order 1" };
/** More than one step releases. */
const many = 130;

/** Registration, and what becomes of parked events. */
export function oneStoreParkingContract(open: OpenStore): void {
  let store: OneStore;
  let rules: Rules;
  /** Other routes, as after a reload. */
  const reload = (others: readonly RouteParts[]) =>
    Object.assign(rules, rulesFor(others, { parkFor }));
  beforeEach(async () => {
    rules = rulesFor(routes, { parkFor });
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const accept = async (...list: Parameters<typeof anEvent>[0][]) =>
    (await store.accept(list.map((parts) => anEvent(parts)))).map(({ seq }) => seq);
  const parkMany = (wamid: (n: number) => string) =>
    accept(
      ...Array.from({ length: many }, (_, n) => ({
        wamid: wamid(n),
        status: n % 2 === 0 ? "sent" : "delivered",
      })),
    );

  /** An event's disposition, verdicts, and where each of its deliveries is. */
  async function seen(seq: number) {
    const event = (await store.rows(events)).find((row) => row.seq === seq);
    const plan = (await store.rows(plans)).find(({ id }) => id === event?.plan);
    const waits = (await store.rows(queue)).filter((row) => row.event === seq);
    return {
      disposition: dispositions[event?.disposition ?? -1],
      verdicts: JSON.parse(plan?.verdicts ?? "[]"),
      waits: Object.fromEntries(waits.map(({ route, state }) => [route, words[state]])),
    };
  }

  const parkedOf = async (seqs: readonly number[]) => {
    const parked = new Set(
      (await store.rows(queue))
        .filter((row) => row.state === queueState.parked)
        .map(({ event }) => event),
    );
    return seqs.filter((seq) => parked.has(seq)).length;
  };

  /** Sends all that is due on a route until nothing is, and gives the order. */
  async function sendAll(route: string, at: number): Promise<number[]> {
    const order: number[] = [];
    for (;;) {
      const due = await store.due(route, at);
      if (due.length === 0) return order;
      order.push(...due.map(({ event }) => event));
      await store.settle(due.map((delivery) => settlementOf(delivery, "delivered", at)));
    }
  }

  async function releaseAll(limit = 10) {
    const due: number[] = [];
    for (;;) {
      const step = await store.releaseParked(start, limit);
      expect(step.released).toBeLessThanOrEqual(limit);
      due.push(...step.due.map(({ event }) => event));
      if (step.released === 0) return due;
    }
  }

  const counted = async () =>
    Object.fromEntries(
      (await store.rows(counters))
        .filter(({ series, n }) => series === "events" && n !== 0)
        .map(({ label, n }) => [label, n]),
    );

  test("registrations of many messages together release no more than one does", async () => {
    reload([tracked]);
    const seqs = await parkMany((n) => `w${n}`);
    const list = seqs.map((_, n) => ({ account: "main", wamid: `w${n}` }));
    const { created, due } = await store.register(list, start);
    expect([created, due.length]).toEqual([many, 50]);
    expect(await parkedOf(seqs)).toBe(many - 50);
    expect(
      [...due.map(({ event }) => event), ...(await releaseAll())].toSorted((a, b) => a - b),
    ).toEqual(seqs);
    expect(await store.rows(state)).toEqual([]);
  });

  test("a new status is held behind earlier ones that wait for release", async () => {
    reload([{ name: "ours", match: { tracked: true, references: ["order *"] } }, { name: "all" }]);
    const seqs = await parkMany(() => "w");
    await store.register([registration], start);
    const [late = 0] = await accept({ wamid: "w", status: "read" });
    expect(await seen(late)).toMatchObject({ disposition: "routed", waits: { ours: "held" } });
    // All that is released goes out, and nothing behind it.
    const sent = await sendAll("ours", start);
    expect(sent).toEqual(seqs.slice(0, 50));
    const due = await releaseAll();
    expect(due).toEqual([seqs[50]]);
    expect(await sendAll("ours", start)).toEqual([...seqs.slice(50), late]);
    const [after = 0] = await accept({ wamid: "w", status: "read" });
    expect(await seen(after)).toMatchObject({ waits: { ours: "waiting" } });
  });

  test("an event behind others that are released to no route goes out then", async () => {
    const vip = { name: "ours", match: { tracked: true, references: ["vip *"] } };
    reload([vip]);
    const seqs = await parkMany(() => "w");
    await store.register([registration], start);
    reload([{ name: "ours" }]);
    const [late = 0] = await accept({ wamid: "w", status: "read" });
    expect(await seen(late)).toMatchObject({ waits: { ours: "held" } });
    reload([vip]);
    expect(await releaseAll()).toEqual([late]);
    expect(await sendAll("ours", start)).toEqual([late]);
    expect(await seen(seqs[0] ?? 0)).toMatchObject({
      disposition: "filtered",
      verdicts: [["ours", "skip", "reference"]],
    });
    expect(await counted()).toEqual({ filtered: many, routed: 1 });
  });

  test("events that wait for release do not expire: their time releases them, too", async () => {
    reload([tracked]);
    const seqs = await parkMany(() => "w");
    const [stranger = 0] = await accept({ wamid: "v" });
    await store.register([registration], start);
    expect(await store.expireParked(start + parkFor, 1_000)).toEqual({
      concluded: many - 50 + 1,
      due: [],
    });
    expect(await seen(stranger)).toMatchObject({ disposition: "ignored", waits: {} });
    expect(await releaseAll()).toEqual([]);
    expect(await store.rows(state)).toEqual([]);
    expect(await sendAll("ours", start + parkFor)).toEqual(seqs);
    expect(await counted()).toEqual({ routed: many, ignored: 1 });
  });

  test("on release the route matches the registered facts and whether the event was a transition", async () => {
    reload([
      { name: "vip", match: { tracked: true, references: ["vip-*"] } },
      { name: "moves", match: { tracked: true }, emit: "transitions" },
    ]);
    const [read = 0, sent = 0] = await accept(
      { wamid: "w", status: "read" },
      { wamid: "w", status: "sent" },
    );
    expect(await seen(sent)).toMatchObject({
      verdicts: [
        ["vip", "park"],
        ["moves", "skip", "no transition"],
      ],
    });
    await store.register([registration], start);
    expect(await seen(read)).toMatchObject({
      disposition: "routed",
      verdicts: [
        ["vip", "skip", "reference"],
        ["moves", "deliver"],
      ],
    });
    expect(await seen(sent)).toMatchObject({ disposition: "filtered", waits: {} });
    await accept({ wamid: "v", status: "sent" });
    const { due } = await store.register(
      [{ account: "main", wamid: "v", reference: "vip-7" }],
      start,
    );
    expect(due.map(({ route }) => route).toSorted()).toEqual(["moves", "vip"]);
  });

  test("a route without order lets all go at once, after its first wait", async () => {
    reload([{ ...tracked, order: "none", firstWait: 500 }]);
    const seqs = await accept({ wamid: "w" }, { wamid: "w", status: "read" });
    const { due } = await store.register([registration], start + 10);
    expect(due).toEqual(
      seqs.map((event) => ({ route: "ours", event, at: start + 510, lane: -event })),
    );
    expect((await store.due("ours", start + 510)).map(({ lane }) => lane)).toEqual(
      seqs.map((event) => -event),
    );
  });

  test("the first of a lane waits as a new delivery does, and a delivery that is out keeps the released ones back", async () => {
    reload([{ name: "ours", firstWait: 500 }]);
    const [out = 0] = await accept({ wamid: "w" });
    reload([{ ...tracked, firstWait: 500 }]);
    const [parked = 0, other = 0] = await accept({ wamid: "w", status: "read" }, { wamid: "v" });
    const { due } = await store.register([registration, { account: "main", wamid: "v" }], start);
    expect(due).toMatchObject([{ event: other, at: start + 500 }]);
    expect(await seen(parked)).toMatchObject({ waits: { ours: "held" } });
    expect(await store.due("ours", start + 499)).toEqual([]);
    const [delivery] = await store.due("ours", start + 500);
    expect(delivery?.event).toBe(out);
    expect(
      await store.settle([settlementOf(delivery as never, "delivered", start + 510)]),
    ).toMatchObject([{ released: { event: parked, at: start + 510 } }]);
  });

  test("what is held behind a parked event goes out when that one expires", async () => {
    reload([tracked]);
    const [parked = 0] = await accept({ wamid: "w" });
    reload([{ name: "ours" }]);
    const [behind = 0] = await accept({ wamid: "w", status: "read" });
    expect(await seen(behind)).toMatchObject({ waits: { ours: "held" } });
    const now = start + parkFor;
    expect(await store.expireParked(now, 10)).toEqual({
      concluded: 1,
      due: [{ route: "ours", event: behind, at: now, lane: 1 }],
    });
    expect(await seen(parked)).toMatchObject({ disposition: "ignored", waits: {} });
    expect(await sendAll("ours", now)).toEqual([behind]);
  });

  test("a delivery that goes out again before a parked one is not joined by another of its lane", async () => {
    reload([tracked]);
    await accept(
      { wamid: "w" },
      { wamid: "w", status: "delivered" },
      { wamid: "w", status: "read" },
    );
    // As after a replay of the first while the second was out.
    await store.run(function* () {
      yield* rows(
        sql`UPDATE queue SET state = ${queueState.held}, next_at = ${never} WHERE event = ${1}`,
      );
      yield* rows(
        sql`UPDATE queue SET state = ${queueState.waiting}, next_at = ${start} WHERE event = ${2}`,
      );
    });
    expect(await store.expireParked(start + parkFor, 10)).toEqual({ concluded: 1, due: [] });
    expect((await store.due("ours", start + parkFor)).map(({ event }) => event)).toEqual([2]);
  });

  test("an event whose route is removed is released to none, and one without an envelope ends", async () => {
    reload([tracked]);
    const [removed = 0] = await accept({ wamid: "w" });
    const [broken = 0] = await accept({ wamid: "v" });
    await store.run(() =>
      rows(sql`UPDATE events SET body = ${Buffer.from("not JSON")} WHERE seq = ${broken}`),
    );
    reload([{ name: "all" }]);
    expect(
      await store.registerEach([registration, { account: "main", wamid: "v" }], start),
    ).toEqual([
      { result: "created", due: [] },
      { result: "created", due: [] },
    ]);
    expect(await seen(removed)).toEqual({
      disposition: "filtered",
      verdicts: [["ours", "skip", "route removed"]],
      waits: {},
    });
    expect(await seen(broken)).toEqual({
      disposition: "ignored",
      verdicts: [["ours", "skip", "untracked"]],
      waits: {},
    });
  });

  test("registering again adds missing facts, and a contradiction is rejected", async () => {
    await accept({ wamid: "w", status: "read" });
    expect(await store.register([{ account: "main", wamid: "w" }], start)).toMatchObject({
      created: 1,
    });
    expect(await store.register([registration, registration], start + 5)).toEqual({
      created: 0,
      due: [],
    });
    await expect(
      store.register([{ ...registration, reference: "order 2" }], start + 6),
    ).rejects.toMatchObject({ code: "conflict" });
    const facts = { metadata: { a: 1 }, conversationId: "c", sentAt: start - 10 };
    await store.register([{ ...registration, ...facts }], start + 7);
    await store.register([{ ...registration, metadata: { b: 2 }, sentAt: start - 20 }], start + 8);
    expect(await store.rows(subjects)).toMatchObject([
      {
        name: "w",
        status: "read",
        registered_at: start,
        updated_at: start + 8,
        reference: "order 1",
        conversation_id: "c",
        metadata: '{"a":1,"b":2}',
        registered_sent_at: start - 20,
      },
    ]);
  });

  test("a list is registered completely or not at all, and registrations of their own one by one", async () => {
    reload([tracked]);
    await accept({ wamid: "parked" });
    await store.register([registration], start);
    const list = [
      { account: "main", wamid: "new" },
      { account: "main", wamid: "parked" },
      { ...registration, reference: "order 2" },
    ];
    await expect(store.register(list, start)).rejects.toMatchObject({
      code: "conflict",
      details: { index: 2 },
    });
    await expect(store.register(list.toReversed(), start)).rejects.toMatchObject({
      code: "conflict",
      details: { index: 0 },
    });
    expect((await store.rows(subjects)).map(({ registered_at }) => registered_at)).toEqual([
      null,
      start,
    ]);
    expect(await parkedOf([1])).toBe(1);
    // In one turn: the list that fails takes nothing from the one beside it.
    const settled = await Promise.allSettled([
      store.register(list, start),
      store.registerEach(list, start + 1),
    ]);
    expect(settled[0]).toMatchObject({ status: "rejected", reason: { code: "conflict" } });
    expect(settled[1]).toMatchObject({
      value: [
        { result: "created", due: [] },
        { result: "created", due: [{ event: 1 }] },
        { result: "conflict", conflicts: { reference: { stored: "order 1", given: "order 2" } } },
      ],
    });
  });

  test("registrations of one message in one turn see each other, and those of two accounts do not", async () => {
    const outcomes = await store.registerEach(
      [
        registration,
        { ...registration, account: "other" },
        { ...registration, reference: "order 2" },
        { ...registration, id: "msg_1" },
      ],
      start,
    );
    expect(outcomes.map(({ result }) => result)).toEqual([
      "created",
      "created",
      "conflict",
      "known",
    ]);
    expect(
      (await store.rows(subjects))
        .map(({ account, service_id }) => [account, service_id])
        .toSorted(),
    ).toEqual([
      ["main", "msg_1"],
      ["other", null],
    ]);
  });
}

const words = Object.fromEntries(Object.entries(queueState).map(([word, code]) => [code, word]));
