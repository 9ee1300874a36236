import { expect, test } from "vitest";
import { mostCodes, type SeriesName } from "../../src/model/history.ts";
import { seriesQuery } from "../../src/model/series.ts";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, dead, delivered, later, openWith, settle } from "./contract-tools.ts";
import { purgeAll } from "./retention-contract.ts";
import { anEvent, start, unreadable } from "./store-events.ts";

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const keep = {
  events: 900 * day,
  ignored: 900 * day,
  deliveries: 900 * day,
  messages: 900 * day,
  history: 400 * day,
};

type Given = Omit<Parameters<typeof seriesQuery>[0], "name">;

/** The totals of a series by label. */
async function totals(
  store: ContractStore,
  name: SeriesName,
  given: Given = {},
  now = start + hour,
) {
  const { series } = await store.series(
    seriesQuery({ name, from: start, to: start + hour, ...given }, now),
  );
  return Object.fromEntries(series.map(({ label, total }) => [label, total]));
}

/** The values of the only label of a series. */
async function valuesOf(
  store: ContractStore,
  name: SeriesName,
  given: Given = {},
  now = start + hour,
) {
  const { series } = await store.series(
    seriesQuery({ name, from: start, to: start + hour, ...given }, now),
  );
  return series.map(({ label, values }) => [label, values] as const);
}

export function historyContract(open: OpenSubject): void {
  test("counts events by minute of receipt, source and disposition", async () => {
    const { store } = await openWith(open, [{ name: "all", match: { events: ["message.*"] } }]);
    await accept(store, { wamid: "a" });
    await accept(store, { wamid: "b", receivedAt: start + minute - 1 });
    await accept(store, { wamid: "c", receivedAt: start + minute, source: "second" });
    await accept(store, { event: "account.note", receivedAt: start + 2 * minute });
    await store.accept(anEvent({ id: "same", wamid: "d" }));
    await store.accept(anEvent({ id: "same", wamid: "d", receivedAt: start + minute }));
    expect(await totals(store, "events")).toEqual({ routed: 4, filtered: 1 });
    expect(await totals(store, "events", { source: "second" })).toEqual({ routed: 1 });
    expect(await totals(store, "events", { by: "source" })).toEqual({ main: 4, second: 1 });
    const to = start + 3 * minute;
    expect(await valuesOf(store, "events", { to })).toEqual([
      ["routed", [3, 1, 0]],
      ["filtered", [0, 0, 1]],
    ]);
    expect(await valuesOf(store, "events", { to: start + 2 * hour, step: "hour" })).toEqual([
      ["routed", [4, 0]],
      ["filtered", [1, 0]],
    ]);
  });

  test("moves an event to its later disposition, in the minute of its receipt", async () => {
    const { store } = await openWith(open, [{ name: "ours", match: { tracked: true } }]);
    await accept(store, { wamid: "known" });
    await accept(store, { wamid: "unknown" });
    expect(await totals(store, "events")).toEqual({ parked: 2 });
    await store.register([{ account: "main", wamid: "known" }], start + 5 * minute);
    await store.releaseParked(start + 5 * minute, 10);
    await store.expireParked(start + hour, 10);
    expect(await totals(store, "events")).toEqual({ routed: 1, ignored: 1 });
    expect(await totals(store, "events", { to: start + minute })).toEqual({
      routed: 1,
      ignored: 1,
    });
  });

  test("counts quarantined bodies, and releases them", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    const { seq } = await store.quarantine(unreadable(anEvent()));
    expect(await totals(store, "events")).toEqual({ quarantined: 1 });
    await store.release({ ...anEvent({ wamid: "w", receivedAt: start + minute }), releaseOf: seq });
    expect(await totals(store, "events")).toEqual({ released: 1, routed: 1 });
  });

  test("counts transitions, passed statuses, failures and times to delivered and read", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    const at = (seconds: number) => start + seconds * 1000;
    await accept(store, { wamid: "a", status: "sent", at: at(0) });
    await accept(store, { wamid: "a", status: "delivered", at: at(10) });
    await accept(store, { wamid: "a", status: "sent", at: at(11) });
    await accept(store, { wamid: "a", status: "read", at: at(20) });
    await accept(store, { wamid: "b", status: "read", at: at(20) });
    await accept(store, { wamid: "c", status: "failed", errorCode: "131026" });
    await accept(store, { wamid: "d", status: "failed" });
    await accept(store, { runId: "r" });
    expect(await totals(store, "transitions")).toEqual({
      sent: 1,
      delivered: 1,
      read: 2,
      failed: 2,
      "run completed": 1,
    });
    expect(await totals(store, "skipped")).toEqual({ sent: 3, delivered: 1 });
    expect(await totals(store, "failures")).toEqual({ "131026": 1, none: 1 });
    const toDelivered = await totals(store, "toDelivered");
    expect(toDelivered).toMatchObject({ count: 1 });
    expect(toDelivered["p50"]).toBeGreaterThan(8);
    expect(toDelivered["p99"]).toBeLessThan(12);
    expect(await totals(store, "toRead")).toMatchObject({ count: 1 });
    const quality = await store.quality({ from: start, to: start + hour });
    expect(quality).toMatchObject({ sent: 4, delivered: 2, read: 2, failed: 2, pending: 0 });
    expect(quality.errors).toEqual([
      { code: "131026", meaning: expect.any(String), count: 1 },
      { code: "none", meaning: null, count: 1 },
    ]);
    // Counted from the rows instead, the sums are the same.
    expect(await store.quality({ from: start, to: start + hour, route: "all" })).toEqual(quality);
    expect(await store.quality({ from: start, to: start + hour, route: "no such" })).toMatchObject({
      sent: 0,
      errors: [],
    });
  });

  test("quality leaves out what messages of before the range reach in it", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    const step = (wamid: string, status: string, at: number) =>
      accept(store, { wamid, status, at, receivedAt: at });
    for (const wamid of ["early", "earlier"]) await step(wamid, "sent", start + minute);
    const from = start + hour;
    await step("early", "delivered", from + 10_000);
    await step("early", "read", from + 5 * minute);
    await step("earlier", "delivered", from + 6 * minute);
    for (const wamid of ["a", "b"]) await step(wamid, "sent", from + 2 * minute);
    await step("a", "delivered", from + 2 * minute + 9_000);
    await step("a", "read", from + 3 * minute);
    for (const only of [{}, { route: "all" }]) {
      const quality = await store.quality({ from, to: from + hour, ...only });
      expect(quality).toMatchObject({ sent: 2, delivered: 1, read: 1, pending: 1 });
      expect(quality.toDelivered.p90).toBeLessThan(12);
    }
    expect(await store.quality({ from: start - hour, to: from + hour })).toMatchObject({
      sent: 4,
      delivered: 3,
      read: 2,
    });
    expect(await store.quality({ from: from + 5 * minute, to: from + hour })).toMatchObject({
      sent: 0,
      delivered: 0,
      read: 0,
    });
  });

  test("quality of a route counts what it delivers, not what it skips or parks", async () => {
    const { store } = await openWith(open, [
      { name: "all" },
      { name: "read", match: { statuses: ["read"] } },
      { name: "ours", match: { tracked: true } },
    ]);
    await accept(store, { wamid: "a", status: "read" });
    await accept(store, { wamid: "b", status: "delivered" });
    const of = (route: string) => store.quality({ from: start, to: start + hour, route });
    expect(await of("all")).toMatchObject({ sent: 2, delivered: 2, read: 1 });
    expect(await of("read")).toMatchObject({ sent: 1, delivered: 1, read: 1 });
    expect(await of("ours")).toMatchObject({ sent: 0 });
  });

  test("quality by the begin of a reference", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    for (const [wamid, reference] of Object.entries({
      a: "shop-1",
      b: "shop-2",
      c: "shoe",
      d: "",
    })) {
      await store.register(
        [{ account: "main", wamid, ...(reference === "" ? {} : { reference }) }],
        start,
      );
      await accept(store, { wamid, status: "delivered" });
    }
    const of = async (reference: string) =>
      (await store.quality({ from: start, to: start + hour, reference })).delivered;
    expect([await of("shop"), await of("shop-2"), await of("sho"), await of("x")]).toEqual([
      2, 1, 3, 0,
    ]);
    expect(
      await store.quality({ from: start + minute, to: start + hour, reference: "shop" }),
    ).toMatchObject({ delivered: 0 });
  });

  test("quality of an account, and of those that a caller may see", async () => {
    const { store } = await openWith(open, []);
    for (const account of ["shop", "care", "fleet"])
      await accept(store, { account, wamid: account, status: "failed", errorCode: account });
    const codes = async (only: object) =>
      (await store.quality({ from: start, to: start + hour, ...only })).errors.map(
        ({ code }) => code,
      );
    expect(await codes({ account: "care" })).toEqual(["care"]);
    expect(await codes({ accounts: ["care", "shop"] })).toEqual(["care", "shop"]);
    expect(await codes({ account: "care", accounts: ["shop"] })).toEqual([]);
  });

  test("counts error codes up to a bound in an hour, then as other", async () => {
    const { store, reopen } = await openWith(open, []);
    const fail = (of: ContractStore, n: number) =>
      accept(of, { wamid: `w${n}`, status: "failed", errorCode: `code ${n}` });
    await Promise.all(Array.from({ length: mostCodes - 1 }, (_, n) => fail(store, n)));
    // The bound outlives the process.
    const again = await reopen();
    for (let n = mostCodes - 1; n < mostCodes + 5; n += 1) await fail(again, n);
    await accept(again, { wamid: "known", status: "failed", errorCode: "code 0" });
    const { errors } = await again.quality({ from: start, to: start + hour });
    expect(errors).toHaveLength(mostCodes + 1);
    expect(errors.slice(0, 2)).toMatchObject([
      { code: "other", count: 5 },
      { code: "code 0", count: 2 },
    ]);
  });

  test("counts attempts by route and outcome, deaths, and the time from receipt to delivery", async () => {
    const { store } = await openWith(open, [{ name: "a" }, { name: "b" }]);
    const seq = await accept(store, { wamid: "w" });
    await settle(store, "a", seq, later(start + 10_000), { at: start, status: 503 });
    await settle(store, "a", seq, delivered, { at: start + 2 * minute });
    await settle(store, "b", seq, dead, { at: start, status: 400 });
    expect(await totals(store, "attempts")).toEqual({ "400": 1, "503": 1, delivered: 1 });
    expect(await totals(store, "attempts", { by: "route" })).toEqual({ a: 2, b: 1 });
    expect(await totals(store, "attempts", { route: "b" })).toEqual({ "400": 1 });
    expect(
      await valuesOf(store, "attempts", { route: "a", by: "route", to: start + 4 * minute }),
    ).toEqual([["a", [1, 0, 1, 0]]]);
    expect(await totals(store, "dead")).toEqual({ b: 1 });
    const delivery = await totals(store, "delivery", { route: "a" });
    expect(delivery).toMatchObject({ count: 1 });
    expect(delivery["p50"]).toBeGreaterThan(100_000);
    expect(delivery["p50"]).toBeLessThan(145_000);
  });

  test("takes the latest sample of a gauge in a minute, and adds acknowledgements soon", async () => {
    const { store, reopen } = await openWith(open, []);
    await store.sampleGauges({ oldest: 9, deadLetters: 5 }, start);
    await store.sampleGauges({ oldest: 3, deadLetters: 7 }, start + 1);
    await store.sampleGauges({ oldest: 1, deadLetters: 0 }, start + 2 * minute);
    expect(await valuesOf(store, "oldest", { to: start + 3 * minute })).toEqual([
      ["total", [3, null, 1]],
    ]);
    expect(await totals(store, "deadLetters")).toEqual({ total: 7 });
    for (const tookMs of [1, 4, 4, 40]) store.noteAcknowledged(tookMs, start);
    // A store that ends writes what it has gathered.
    expect(await totals(await reopen(), "ack")).toMatchObject({
      count: 4,
      p50: expect.closeTo(4, 0),
    });
  });

  test("rolls minutes up to hours after two days, and deletes them after their retention", async () => {
    const { store } = await openWith(open, [{ name: "ours", match: { tracked: true } }], {
      parkFor: 900 * day,
    });
    for (const at of [0, 1, 59, 60])
      await accept(store, { wamid: `w${at}`, receivedAt: start + at * minute });
    await store.sampleGauges({ oldest: 9, deadLetters: 5 }, start);
    await store.sampleGauges({ oldest: 3, deadLetters: 7 }, start + minute);
    const range = { to: start + 2 * hour, step: "hour" } as const;
    const later = start + 3 * day;
    await purgeAll(store, later, keep);
    expect(await valuesOf(store, "events", range, later)).toEqual([["parked", [3, 1]]]);
    expect(await valuesOf(store, "oldest", range, later)).toEqual([["total", [9, null]]]);
    // A change of an old event reaches its hour.
    await store.register([{ account: "main", wamid: "w1" }], later);
    await store.releaseParked(later, 10);
    await purgeAll(store, later, keep);
    expect(await valuesOf(store, "events", range, later)).toEqual([
      ["parked", [2, 1]],
      ["routed", [1, 0]],
    ]);
    expect((await store.audit(later)).offenders).toEqual([]);
    await purgeAll(store, start + 401 * day, keep);
    expect(await valuesOf(store, "events", range, later)).toEqual([]);
    await store.register([{ account: "main", wamid: "w59" }], start + 401 * day);
    expect(await valuesOf(store, "events", range, later)).toEqual([]);
    expect((await store.audit(start + 401 * day)).offenders).toEqual([]);
  });

  test("is audited although a clock that was ahead dated its events", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    await accept(store, { wamid: "a", receivedAt: start + 90 * day });
    expect((await store.audit(start)).offenders).toEqual([]);
  });
}
