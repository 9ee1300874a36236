import { expect, test } from "vitest";
import { type BudgetRequest, limitsFrom, slotKinds } from "../../../src/model/budget.ts";
import { state } from "../../../src/store/schema/tables.ts";
import { storedStops } from "../../../src/store/work/budgets.ts";
import { rulesFor } from "../../contract/store-events.ts";
import { openTwo } from "../../contract/store-on-database.ts";
import { until } from "../../harness/until.ts";

const rules = rulesFor([]);
const place = "main@1";
const of = (n: number) => limitsFrom(() => n);

const requestOf = (process: string, more: Partial<BudgetRequest> = {}): BudgetRequest => ({
  process,
  caps: of(40),
  used: of(0),
  keep: of(0),
  need: of(30),
  want: of(40),
  leaseMs: 15_000,
  countsMs: 100_000,
  news: null,
  ...more,
});

test("steps of many processes at once never give away more than the caps", async () => {
  await using two = await openTwo(rules);
  const names = Array.from({ length: 8 }, (_, n) => `p${n}`);
  const given = new Map(names.map((name) => [name, of(0)]));
  for (let round = 0; round < 4; round += 1) {
    await Promise.all(
      names.map(async (name, n) => {
        const { limits } = await (n % 2 === 0 ? two.one : two.other).stepBudget(
          place,
          requestOf(name),
        );
        given.set(name, limits);
      }),
    );
    for (const kind of slotKinds) {
      const sum = [...given.values()].reduce((all, limits) => all + limits[kind], 0);
      // After the first steps, the parts of those that came early shrink with theirs.
      expect(sum).toBeLessThanOrEqual(40);
      if (round > 1) expect(sum).toBe(40);
    }
  }
  for (const limits of given.values()) expect(limits).toEqual(of(5));
});

test("a part outlives its lease until calls made with it no longer count", async () => {
  await using two = await openTwo(rules);
  const { one, other } = two;
  // The lease ends at once, and the calls count for an hour.
  expect(
    (await one.stepBudget("main@2", requestOf("one", { leaseMs: 0, countsMs: 3_600_000 }))).limits,
  ).toEqual(of(36));
  expect((await other.stepBudget("main@2", requestOf("other"))).limits).toEqual(of(4));

  expect(
    (await one.stepBudget(place, requestOf("one", { leaseMs: 0, countsMs: 0 }))).limits,
  ).toEqual(of(36));
  await until(
    "the part is free",
    async () => (await other.stepBudget(place, requestOf("other"))).limits.requests === 36,
  );
  await other.stepBudget(place, requestOf("other", { need: of(0), want: of(0), leaseMs: 0 }));
  expect(
    (await two.opened.rows(state)).map(({ key }) => key).filter((key) => key.startsWith("budget/")),
  ).not.toContain("budget/main@1/other");
});

test("stops of quotas are stored with a step, and others get them", async () => {
  await using two = await openTwo(rules);
  const { one, other } = two;
  const stop = { resource: "apiCalls", renewsAt: 9, until: 9 };
  await one.stepBudget(place, requestOf("one", { news: { plan: "p", stops: { quota: stop } } }));
  expect((await other.stepBudget(place, requestOf("other"))).stops).toEqual({
    plan: "p",
    stops: { quota: stop },
  });
  await other.stepBudget(
    place,
    requestOf("other", { news: { plan: "p", stops: { quota: null } } }),
  );
  expect(await two.opened.read(storedStops(place))).toEqual({ plan: "p", stops: {} });
});
