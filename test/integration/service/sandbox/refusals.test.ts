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
  const turnedAway = [client.me(), client.sendMessage({ to: meeting.phone(), text: "hola" })];
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
