import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { openStage } from "./stage.ts";

const minute = 60_000;
const hour = 60 * minute;

/** True statuses at the service. */
const truth = (stage: Awaited<ReturnType<typeof openStage>>) =>
  new Map(stage.sandbox.messages().map(({ wamid, status }) => [wamid as string, status as string | null]));

test("polls for a status that no webhook reported, routes it once, and stops polling when it is final", async () => {
  const downstream = await openDownstream();
  const stage = await openStage({ settings: { routes: [routeTo(downstream.url, { emit: "transitions" })] } });
  await stage.send(12);
  stage.clock.jump(30_000);
  expect(await stage.reconcile()).toMatchObject({ polled: 0, postponed: 0 });

  stage.clock.jump(5 * minute);
  const calls = await stage.apiCalls();
  expect(await stage.reconcile()).toMatchObject({ polled: 12, changed: 12, unchanged: 0, missing: 0, failed: 0, stopped: null });
  expect(await stage.apiCalls()).toBe(calls + 12);
  expect(await stage.statuses()).toEqual(truth(stage));
  await until("all are delivered", () => downstream.counts().taken === 12);

  // At once again: nothing is due.
  expect(await stage.reconcile()).toMatchObject({ polled: 0 });
  // Those that are delivered may still be read; those that are read are never polled again.
  const delivered = [...truth(stage).values()].filter((status) => status === "delivered").length;
  expect(delivered).toBeGreaterThan(0);
  stage.clock.jump(hour);
  expect(await stage.reconcile()).toMatchObject({ polled: delivered, changed: 0, unchanged: delivered });
  expect(downstream.counts().taken).toBe(12);
});

test("lists each account's calls and last pass, and a service that answers no poll", async () => {
  const stage = await openStage({ plan: "escala", account: { share: 0.5 } });
  const account = async () => ((await stage.ask("GET", "/v1/accounts")).body as { data: Record<string, unknown>[] }).data[0];
  const failing = async () => {
    const { attention } = (await stage.ask("GET", "/v1/overview")).body as { attention: { kind: string; subject: string }[] };
    return attention.filter(({ kind }) => kind === "reconcile-failing");
  };
  expect(await account()).toEqual({
    account: "main",
    isCallable: true,
    plan: "escala",
    stops: [],
    budget: expect.objectContaining({ quota: 150_000, polls: 0, others: 0, left: 150_000 }),
    lastPass: null,
    nextPassAt: null,
  });

  await stage.send(5);
  stage.clock.jump(2 * minute);
  stage.sandbox.setFaults({ api: [{ answer: 500 }] });
  const { failed } = await stage.reconcile();
  // A pass in which nothing is due does not end it.
  expect(await stage.reconcile()).toMatchObject({ polled: 0 });
  // The pass is noted after its answer.
  await until("the second pass is noted", async () => ((await account())?.["lastPass"] as { polled: number } | null)?.polled === 0);
  const down = await account();
  expect(down).toMatchObject({ lastPass: { unreachableSince: expect.any(String) } });
  expect(await failing()).toEqual([]);
  stage.clock.jump(5 * minute + 1_000);
  expect(await failing()).toMatchObject([
    { subject: "main", since: (down as { lastPass: { unreachableSince: string } }).lastPass.unreachableSince },
  ]);

  stage.sandbox.setFaults({});
  stage.clock.jump(hour);
  await stage.reconcile();
  await until("the last pass is noted", async () => ((await account())?.["lastPass"] as { changed: number } | null)?.changed === 5);
  expect(await account()).toMatchObject({ budget: { polls: failed + 5 }, lastPass: { changed: 5, stopped: null, unreachableSince: null } });
  stage.clock.jump(minute);
  expect(await failing()).toEqual([]);
});

test("polls no message whose webhooks arrived", async () => {
  const stage = await openStage({ webhooks: true });
  await stage.send(6);
  stage.clock.jump(5 * minute);
  await until("all webhooks came", async () => {
    const seen = await stage.statuses();
    return [...truth(stage)].every(([wamid, status]) => seen.get(wamid) === status);
  });
  expect(await stage.reconcile()).toMatchObject({ polled: 0, failed: 0 });
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
  expect(await stage.reconcile()).toMatchObject({ polled: 3, ...found, missing: 2, unpollable: 1, stopped: null });
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

test("a dry run polls and changes nothing", async () => {
  const stage = await openStage();
  await stage.send(3);
  stage.clock.jump(2 * minute);
  const calls = await stage.apiCalls();
  for (const _ of [1, 2]) {
    const { body } = await stage.ask("POST", "/v1/reconcile", { dryRun: true });
    expect(body).toMatchObject({
      accounts: [{ account: "main", due: 3, wouldPoll: 3, postponed: 0, stopped: null, lastsUntil: null }],
    });
  }
  expect(await stage.apiCalls()).toBe(calls);
  expect(await stage.reconcile()).toMatchObject({ polled: 3 });
});

test("makes one call with a revoked key, reports it, and polls all once the key is valid", async () => {
  const stage = await openStage();
  await stage.send(20);
  stage.clock.jump(2 * minute);
  const keys = (await stage.sandbox.control("GET", "/keys")).body as { data: { id: string }[] };
  const { key } = (await stage.sandbox.control("POST", "/keys", { label: "another" })).body as { key: string };
  await stage.sandbox.control("DELETE", `/keys/${keys.data[0]?.id}`);
  expect(await stage.reconcile()).toMatchObject({ polled: 0, stopped: { reason: "unauthenticated" } });
  const metrics = await fetch(`${stage.url}/metrics`).then((answer) => answer.text());
  expect(metrics).toContain('relay_service_calls_total{account="main",outcome="unauthenticated"} 1\n');
  expect((await stage.ask("GET", "/readyz")).body).toMatchObject({ ready: true, alarms: [{ alarm: "key", account: "main" }] });
  expect(stage.lines.filter(({ alarm }) => alarm === "key")).toHaveLength(1);
  expect(await stage.reconcile()).toMatchObject({ polled: 0, stopped: { reason: "unauthenticated" } });

  await stage.reload({ apiKey: key });
  expect(await stage.reconcile()).toMatchObject({ polled: 20, changed: 20, stopped: null });
  stage.clock.jump(16_000);
  await until("the alarm has ended", async () => ((await stage.ask("GET", "/readyz")).body as { alarms: unknown[] }).alarms.length === 0);
});

test("polls nothing while the quota is used up, and all after its renewal", async () => {
  // 2026-11-29 12:00 UTC.
  const stage = await openStage({ plan: "escala", start: Date.UTC(2026, 10, 29, 12) });
  await stage.send(5);
  stage.clock.jump(2 * minute);
  await stage.sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  const stopped = await stage.reconcile();
  expect(stopped).toMatchObject({ polled: 0, stopped: { reason: "quota", until: "2026-12-01T03:00:00.000Z" } });
  // The used-up quota is an alarm too.
  const said = () => stage.lines.filter(({ alarm, msg }) => alarm === undefined && /reconciled|quota/.test(String(msg))).length;
  const before = said();
  expect(before).toBeGreaterThan(0);
  stage.clock.jump(hour);
  expect(await stage.reconcile()).toMatchObject({ polled: 0, stopped: { reason: "quota" } });
  expect(said()).toBe(before);
  stage.clock.jump(40 * hour);
  expect(await stage.reconcile()).toMatchObject({ polled: 5, changed: 5, stopped: null });
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
  expect(await stage.statuses()).toEqual(truth(stage));
});

test("spreads a small quota over the month and reports what is postponed", { tags: ["slow"] }, async () => {
  // 2026-12-01, three hours into the month: 3,000 calls are ours, 300 are kept for sends, a day's part is 87.
  const stage = await openStage({ plan: "escala", account: { share: 0.01 }, start: Date.UTC(2026, 11, 1, 6) });
  await stage.send(60, "0002");
  stage.clock.jump(2 * minute);
  // The share allows one question a minute.
  const stopTicking = stage.tick(5_000);
  const first = await stage.reconcile();
  stopTicking();
  // A quarter of the day's part, and an eighth of the rest, for an eighth of the day has gone.
  expect(first.polled).toBeGreaterThanOrEqual(29);
  expect(first.polled).toBeLessThanOrEqual(33);
  expect(first.postponed).toBe(60 - first.polled);
  expect(first.lastsUntil).toMatch(/^2026-12-/);
  expect(stage.lines.filter(({ msg }) => String(msg).includes("so that the month's quota lasts"))).toHaveLength(1);
  const metrics = await fetch(`${stage.url}/metrics`).then((answer) => answer.text());
  expect(metrics).toContain(`relay_reconcile_postponed{account="main"} ${first.postponed}`);

  // What was polled is counted in the store.
  await stage.restart();
  const { body } = await stage.ask("POST", "/v1/reconcile", { dryRun: true });
  const plan = (body as { accounts: { wouldPoll: number; postponed: number }[] }).accounts[0];
  expect(plan?.wouldPoll).toBeLessThanOrEqual(1);
  // The next day has its own part.
  stage.clock.jump(24 * hour);
  const next = await stage.ask("POST", "/v1/reconcile", { dryRun: true });
  expect((next.body as { accounts: { wouldPoll: number }[] }).accounts[0]?.wouldPoll).toBeGreaterThan(25);
});

test("polls on its schedule, also across a restart", async () => {
  const stage = await openStage({ settings: { reconcile: { schedule: "* * * * *" } } });
  await stage.send(120);
  const calls = await stage.apiCalls();
  await until("some are polled", async () => {
    stage.clock.jump(5_000);
    return (await stage.apiCalls()) > calls + 5;
  });
  await stage.restart();
  await until("all are at rest or known", async () => {
    stage.clock.jump(5_000);
    const seen = await stage.statuses();
    return [...truth(stage)].every(([wamid, status]) => seen.get(wamid) === status);
  });
});
