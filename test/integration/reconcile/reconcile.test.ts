import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { openStage } from "./stage.ts";

const minute = 60_000;
const hour = 60 * minute;

interface Planned {
  readonly wouldPoll: number;
  readonly postponed: number;
  readonly lastsUntil: string | null;
}

test("polls for a status that no webhook reported, routes it once, and stops polling when it is final", async () => {
  const downstream = await openDownstream();
  const stage = await openStage({
    settings: { routes: [routeTo(downstream.url, { emit: "transitions" })] },
  });
  await stage.send(12);
  stage.clock.jump(30_000);
  expect(await stage.reconcile()).toMatchObject({ polled: 0, postponed: 0 });

  stage.clock.jump(5 * minute);
  const calls = await stage.apiCalls();
  expect(await stage.reconcile()).toMatchObject({
    polled: 12,
    changed: 12,
    unchanged: 0,
    missing: 0,
    failed: 0,
    stopped: null,
  });
  expect(await stage.apiCalls()).toBe(calls + 12);
  expect(await stage.statuses()).toEqual(stage.truth());
  await until("all are delivered", () => downstream.counts().taken === 12);

  // At once again: nothing is due.
  expect(await stage.reconcile()).toMatchObject({ polled: 0 });
  // Those that are delivered may still be read; those that are read are never polled again.
  const delivered = [...stage.truth().values()].filter((status) => status === "delivered").length;
  expect(delivered).toBeGreaterThan(0);
  stage.clock.jump(hour);
  expect(await stage.reconcile()).toMatchObject({
    polled: delivered,
    changed: 0,
    unchanged: delivered,
  });
  expect(downstream.counts().taken).toBe(12);
});

test("counts a message as missing after two 404s while others are found", async () => {
  const stage = await openStage();
  const [sent] = await stage.send(1, "0002");
  await stage.ask("POST", "/v1/messages/track", [
    { account: "main", wamid: "wamid.unknown", id: "0199aa10-0000-7000-8000-000000000001" },
    { account: "main", wamid: "wamid.alone" },
    // The id of another message: its status is not this one's.
    { account: "main", wamid: "wamid.wrong", id: sent?.id },
  ]);
  stage.clock.jump(2 * minute);
  const found = { changed: 1, unchanged: 0 };
  expect(await stage.reconcile()).toMatchObject({
    polled: 3,
    ...found,
    missing: 2,
    unpollable: 1,
    stopped: null,
  });
  // One 404 is not believed, and none before something was found.
  for (let n = 0; n < 3; n++) {
    stage.clock.jump(20 * minute);
    expect((await stage.reconcile()).stopped).toBeNull();
  }
  stage.clock.jump(hour);
  expect(await stage.reconcile()).toMatchObject({ missing: 0 });
  expect((await stage.statuses()).get("wamid.wrong")).toBeNull();
  const { body } = await stage.ask("POST", "/v1/reconcile", { dryRun: true });
  expect(body).toMatchObject({ accounts: [{ account: "main", missing: 2, unpollable: 1 }] });
});

test("ends a pass when the service is down, and polls again at growing intervals", async () => {
  const stage = await openStage();
  await stage.send(40);
  stage.clock.jump(2 * minute);
  stage.sandbox.setFaults({ api: [{ answer: 500 }] });
  const down = await stage.reconcile();
  expect(down).toMatchObject({ changed: 0, stopped: { reason: "unreachable" } });
  expect(down.failed).toBeGreaterThanOrEqual(5);
  // Those under way when it was given up.
  expect(down.failed).toBeLessThan(15);
  stage.sandbox.setFaults({});
  // Those that failed wait; the others do not.
  expect((await stage.reconcile()).polled).toBe(40 - down.failed);
  stage.clock.jump(minute + 1000);
  expect(await stage.reconcile()).toMatchObject({ changed: down.failed });
  expect(await stage.statuses()).toEqual(stage.truth());
});

test("spreads a small quota over the month and reports what is postponed", async () => {
  // 2026-12-01, three hours into the month: 3,000 calls are ours, 300 are kept for sends, a day's
  // part is 87.
  const stage = await openStage({
    plan: "escala",
    account: { share: 0.01 },
    start: Date.UTC(2026, 11, 1, 6),
  });
  await stage.send(60, "0002");
  stage.clock.jump(2 * minute);
  const plan = async () =>
    ((await stage.ask("POST", "/v1/reconcile", { dryRun: true })).body as { accounts: [Planned] })
      .accounts[0];
  const { wouldPoll, postponed, lastsUntil } = await plan();
  // A quarter of the day's part, and an eighth of the rest, for an eighth of the day has gone.
  expect(wouldPoll).toBeGreaterThanOrEqual(29);
  expect(wouldPoll).toBeLessThanOrEqual(33);
  expect(postponed).toBe(60 - wouldPoll);
  expect(lastsUntil).toMatch(/^2026-12-/);
  stage.clock.jump(18 * hour);
  expect((await plan()).wouldPoll).toBe(60);
});
