import { expect, test } from "vitest";
import { day, errorOf, meet, minute, resultOf } from "./meeting.ts";

test("at the cap of messages a send waits for Retry-After, and goes once", async () => {
  const meeting = await meet({ plan: "escala" });
  const { sandbox, phone } = meeting;
  const template = { id: sandbox.templates()[0]?.id ?? "" };
  // Somebody else with the same account uses up the minute.
  for (let n = 0; n < 60; n += 1) await sandbox.call("POST", "/messages", { to: phone(), template });
  const { client, limiter, calls } = meeting.join();
  await meeting.pass(20_000);
  const sent = client.sendMessage({ to: phone(), template });
  await meeting.pass(1_000);
  expect(meeting.refused).toMatchObject([{ status: 429, error: expect.stringMatching(/mensajes por minuto/) }]);
  expect(limiter.state().caps).toMatchObject({ messages: { heldUntil: meeting.clock.now() + 39_000 }, requests: { heldUntil: null } });
  // The other cap is not held: others may ask meanwhile.
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "escala" });
  expect(await meeting.finish(sent)).toBeGreaterThan(38_000);
  expect(await sent).toMatchObject({ status: "pending" });
  expect(sandbox.messages()).toHaveLength(61);
  expect(calls.map(({ outcome }) => outcome)).toMatchObject([
    { type: "rate-limited", cap: "messages", retryAfterMs: 40_000, limit: 60 },
    { type: "answered" },
    { type: "answered" },
  ]);
  expect(meeting.refused).toHaveLength(1);
});

test("at the cap of requests all calls wait, and each succeeds", async () => {
  const meeting = await meet({ plan: "escala" });
  const { sandbox } = meeting;
  for (let n = 0; n < 300; n += 1) await sandbox.call("GET", "/me");
  const { client, limiter } = meeting.join();
  const from = meeting.clock.now();
  const asking = client.me();
  await meeting.pass(100);
  expect(limiter.state().caps.requests.heldUntil).toBe(from + minute);
  const all = Promise.all([asking, client.listTemplates(), client.me(), client.me()]);
  expect(await meeting.finish(all)).toBeGreaterThanOrEqual(minute - 100);
  expect((await all)[0]).toMatchObject({ plan: "escala" });
  expect(meeting.refused).toMatchObject([{ status: 429, path: "/api/v1/me", error: expect.not.stringMatching(/mensajes/) }]);
});

test("repeated 429s: the waits grow, and the error has their numbers", async () => {
  const meeting = await meet({ plan: "escala" });
  meeting.sandbox.setFaults({ api: [{ answer: 429, retryAfter: 7 }] });
  const { client } = meeting.join();
  const error = await errorOf(meeting, client.me());
  expect(error).toMatchObject({
    kind: "rate-limited",
    outcome: "not-done",
    failure: { retryAfterMs: 7_000, limit: 300, cap: "requests" },
  });
  const at = meeting.refused.map((refused) => refused.at);
  const waits = at.slice(1).map((time, n) => time - (at[n] ?? 0));
  expect(waits).toHaveLength(3);
  expect(waits[0]).toBeGreaterThanOrEqual(7_000);
  expect(waits[1]).toBeGreaterThanOrEqual(14_000);
  expect(waits[2]).toBeGreaterThan(waits[1] as number);
});

test("the monthly quota: after one call no other is made until day 1, 00:00 in Argentina, or another plan", async () => {
  const meeting = await meet({ plan: "escala" });
  const { sandbox, clock } = meeting;
  await sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  const { client, limiter } = meeting.join();
  const renewal = Date.UTC(2026, 11, 1, 3);
  const first = await errorOf(meeting, client.me());
  const cause = {
    type: "upgrade",
    reason: "limit",
    resource: "apiCalls",
    plan: "escala",
    limit: 300_000,
    used: 300_000,
    suggested: "enterprise",
  };
  expect(first).toMatchObject({ kind: "quota", status: 429, local: false, failure: { until: renewal, cause } });
  expect(first.text).toMatch(/llamadas a la API/);
  const turnedAway = [client.me(), client.sendMessage({ to: meeting.phone(), text: "hola" }), client.listTemplates()];
  for (const error of await Promise.all(turnedAway.map((call) => errorOf(meeting, call)))) {
    expect(error).toMatchObject({ kind: "quota", local: true, failure: { until: renewal, cause: null } });
  }
  await clock.advance(20 * day);
  expect(clock.now()).toBeLessThan(renewal);
  await clock.advance(renewal - clock.now() - 1);
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota", local: true });
  expect(meeting.refused).toHaveLength(1);
  // The service's counter may be half a minute late.
  await clock.advance(minute);
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota", local: true });
  await clock.advance(1);
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "escala" });

  await sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota", local: false });
  await sandbox.control("PATCH", "/accounts/main", { plan: "enterprise" });
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota", local: true });
  limiter.resume();
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "enterprise" });
});

test("a clock three seconds fast at the month's turn costs the account about a minute, and a late renewal an hour", async () => {
  const meeting = await meet({ plan: "escala" });
  const { sandbox, clock } = meeting;
  const turn = Date.UTC(2026, 11, 1, 3);
  // The clock of the relay is 3 s ahead of the service.
  await clock.advance(turn - 6_000 - clock.now());
  const fast = { ...clock, now: () => clock.now() + 3_000 };
  const { client } = meeting.join({ limits: { clock: fast } });
  await sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  await clock.advance(4_000);
  expect(fast.now()).toBeGreaterThan(turn);
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota", local: false });
  await clock.advance(30_000);
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota", local: true });
  await clock.advance(turn + minute - clock.now());
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "escala" });
  expect(meeting.refused).toHaveLength(1);

  // Used up again at once, as if the renewal came late: refused calls go once an hour, and the first that is answered ends it.
  await sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  const before = meeting.refused.length;
  for (let tenMinutes = 0; tenMinutes < 18; tenMinutes += 1) {
    expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "quota" });
    await clock.advance(10 * minute);
  }
  expect(meeting.refused).toHaveLength(before + 3);
  await sandbox.control("PUT", "/usage", { apiCalls: 0 });
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "escala" });
  expect(await resultOf(meeting, client.listTemplates())).toBeDefined();
});

test("with a revoked key many callers stay far below the 20 bad calls that block the address", async () => {
  const meeting = await meet({ plan: "enterprise" });
  const { sandbox } = meeting;
  const { id, key } = (await sandbox.control("POST", "/keys", { label: "second" })).body as { id: string; key: string };
  const party = meeting.join({ key });
  const { client } = party;
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "enterprise" });
  await sandbox.control("DELETE", `/keys/${id}`);

  const outcomes: { kind: string; local: boolean }[] = [];
  const crowd = Array.from({ length: 60 }, (_, n) =>
    (async () => {
      for (let call = 0; call < 20; call += 1) {
        const asking = n % 2 === 0 ? client.me() : client.getMessage("00000000-0000-7000-8000-000000000000", { priority: "poll" });
        outcomes.push(
          await asking.then(
            () => ({ kind: "ok", local: false }),
            (error) => error as { kind: string; local: boolean },
          ),
        );
        await new Promise<void>((resolve) => void meeting.clock.after(15_000, resolve));
      }
    })(),
  );
  await meeting.finish(Promise.all(crowd));
  expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(["unauthenticated"]));
  // Eight calls were under way when the first 401 came; from then on one tries from time to time.
  const bad = meeting.refused;
  expect(new Set(bad.map(({ status }) => status))).toEqual(new Set([401]));
  const inAMinute = bad.map(({ at }) => bad.filter((other) => other.at >= at && other.at < at + minute).length);
  expect(Math.max(...inAMinute)).toBeLessThanOrEqual(20);
  // The address is not blocked: the other key works from it.
  expect(await resultOf(meeting, meeting.join().client.me())).toMatchObject({ plan: "enterprise" });
});

test("a key that was never valid costs a few calls in all", async () => {
  const meeting = await meet();
  const { client } = meeting.join({ key: "acme_live_nobody_ever_made_this_key" });
  const crowd = Array.from({ length: 50 }, () => errorOf(meeting, client.me()));
  for (const error of await Promise.all(crowd)) expect(error).toMatchObject({ kind: "unauthenticated", outcome: "not-done" });
  expect(meeting.refused.length).toBeLessThanOrEqual(5);
  expect(meeting.refused[0]?.error).toMatch(/clave/);
});

test("a blocked address is not called for a minute, and then works again", async () => {
  const meeting = await meet();
  const { sandbox, clock } = meeting;
  const { client } = meeting.join();
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "enterprise" });
  const headers = { authorization: "Bearer acme_live_wrong" };
  for (let n = 0; n < 21; n += 1) await fetch(`${sandbox.apiUrl}/me`, { headers });
  const before = meeting.refused.length;
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "blocked", status: 429, local: false, outcome: "not-done" });
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "blocked", local: true });
  await clock.advance(minute - 200);
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "blocked", local: true });
  expect(meeting.refused).toHaveLength(before + 1);
  await clock.advance(200);
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "enterprise" });
});
