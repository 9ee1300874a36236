import type { FastifyInstance } from "fastify";
import { expect, test } from "vitest";
import { startGate } from "./start-gate.ts";

const sent: unknown[] = [];

function dummyRoutes(api: FastifyInstance): void {
  api.get("/me", () => ({ ok: true }));
  api.post("/messages", (request, reply) => {
    sent.push(request.body);
    return reply.code(201).send({ ok: true });
  });
}

const send = { method: "POST", body: "{}" } as const;

test("61 messages in a minute: the last is refused, did nothing, and counts for nothing", async () => {
  await using gate = await startGate(dummyRoutes);
  gate.world.keys.put({ id: "second", account: "main", createdAt: 0, key: "k-2", label: "", revokedAt: null });
  sent.length = 0;
  for (let one = 0; one < 60; one += 1) {
    const answer = await gate.call("/api/v1/messages", { ...send, key: one % 2 === 0 ? "k-1" : "k-2" });
    expect(answer.status).toBe(201);
  }
  await gate.clock.advance(18_500);
  const refused = await gate.call("/api/v1/messages", send);
  expect(refused).toMatchObject({ status: 429, headers: { "retry-after": "42", "x-ratelimit-limit": "60" } });
  expect(refused.body).toEqual({ error: expect.stringContaining("mensajes por minuto") });
  expect(sent).toHaveLength(60);
  expect(gate.limits.usage(gate.account).apiCalls).toBe(60);
  // A message that is refused as such still leaves room for other requests.
  expect((await gate.call("/api/v1/me")).status).toBe(200);
  await gate.clock.advance(42_000);
  expect((await gate.call("/api/v1/messages", send)).status).toBe(201);
});

test("301 requests in a minute, unknown paths among them: the last is refused", async () => {
  await using gate = await startGate(dummyRoutes);
  for (let one = 0; one < 150; one += 1) {
    expect((await gate.call("/api/v1/me")).status).toBe(200);
    expect((await gate.call("/api/v1/nowhere")).status).toBe(404);
  }
  for (const path of ["/api/v1/me", "/api/v1/nowhere", "/api/v1/%zz"]) {
    const refused = await gate.call(path);
    expect(refused).toMatchObject({ status: 429, headers: { "retry-after": "60", "x-ratelimit-limit": "300" } });
    expect(refused.body).toEqual({ error: expect.stringContaining("pedidos por minuto") });
  }
  expect(gate.limits.perMinute("main")).toMatchObject({ requests: { peak: 300 }, refused: 3 });
});

test("a used up monthly quota says so, without Retry-After", async () => {
  await using gate = await startGate(dummyRoutes);
  gate.account.usage.apiCalls = 300_000;
  const refused = await gate.call("/api/v1/me");
  expect(refused.status).toBe(429);
  expect(refused.headers["retry-after"]).toBe(undefined);
  expect(refused.headers["x-ratelimit-limit"]).toBe(undefined);
  expect(refused.body).toEqual({
    error: expect.any(String),
    cause: {
      type: "upgrade",
      reason: "limit",
      resource: "apiCalls",
      plan: "escala",
      limit: 300_000,
      used: 300_000,
      suggested: "enterprise",
    },
  });
});

test("a plan without the API: 402 with its cause", async () => {
  await using gate = await startGate(dummyRoutes, { plan: "growth" });
  expect(await gate.call("/api/v1/me")).toMatchObject({
    status: 402,
    body: { cause: { type: "upgrade", plan: "growth", suggested: "escala" } },
  });
});

test("more than 20 bad keys block the address they come from, and no other", async () => {
  await using gate = await startGate(dummyRoutes);
  for (let one = 0; one < 20; one += 1) {
    expect((await gate.call(one % 2 === 0 ? "/api/v1/me" : "/api/v1/nowhere", { key: one % 3 === 0 ? null : "wrong" })).status).toBe(401);
  }
  for (const key of ["wrong", "k-1", null]) {
    const blocked = await gate.call("/api/v1/me", { key });
    expect(blocked.status).toBe(429);
    expect(blocked.headers["retry-after"]).toBe(undefined);
    expect(blocked.headers["x-ratelimit-limit"]).toBe(undefined);
    expect(blocked.body).toEqual({ error: expect.any(String) });
  }
  expect((await gate.call("/api/v1/me", { from: "127.0.0.2" })).status).toBe(200);
  // Not to be talked out of it by a header.
  expect((await gate.call("/api/v1/me", { headers: { "x-forwarded-for": "127.0.0.9" } })).status).toBe(429);
  expect(gate.limits.usage(gate.account).apiCalls).toBe(1);
  await gate.clock.advance(60_000);
  expect((await gate.call("/api/v1/me")).status).toBe(200);
});
