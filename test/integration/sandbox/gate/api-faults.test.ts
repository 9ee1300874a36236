import type { FastifyInstance } from "fastify";
import { expect, test } from "vitest";
import { refused } from "../../../../src/sandbox/api/fault.ts";
import { until } from "../../../harness/until.ts";
import { startGate } from "./start-gate.ts";

/** What the handlers did, so that work done and an answer spoilt can be told apart. */
function dummyRoutes() {
  const done: string[] = [];
  const routes = (api: FastifyInstance): void => {
    api.get("/me", () => {
      done.push("me");
      return { account: "main" };
    });
    api.get("/messages/:messageId", () => {
      done.push("message");
      throw refused(404, "No existe ese mensaje.");
    });
    api.post("/messages", async (_request, reply) => {
      done.push("send");
      return reply.code(201).send({ id: "1", status: "pending" });
    });
  };
  return { done, routes };
}

const send = { method: "POST", body: "{}" } as const;

test.each(["before", "after"] as const)("500 and 502 %s the work", async (when) => {
  const { done, routes } = dummyRoutes();
  await using gate = await startGate(routes);
  gate.setFaults(
    { answer: 500, when, times: 1, endpoint: "POST /messages" },
    { answer: 502, when, times: 2, endpoint: "POST /messages", error: "El proveedor dice que no." },
  );
  const answers = [await gate.call("/api/v1/messages", send), await gate.call("/api/v1/messages", send)];
  expect(answers.map(({ status, body }) => [status, body])).toEqual([
    [500, { error: expect.stringContaining("inesperado"), cause: null }],
    [502, { error: "El proveedor dice que no.", cause: null }],
  ]);
  for (const { headers } of answers) expect(headers["content-type"]).toMatch(/^application\/json/);
  expect(done).toEqual(when === "after" ? ["send", "send"] : []);
  expect((await gate.call("/api/v1/me")).status).toBe(200);
  expect((await gate.call("/api/v1/messages", send)).status).toBe(502);
  expect((await gate.call("/api/v1/messages", send)).status).toBe(201);
  // They came with a valid key: all count. And no fault of ours happened.
  expect(gate.limits.usage(gate.account).apiCalls).toBe(5);
  expect(gate.limits.perMinute("main").messages.last).toBe(4);
  expect(gate.failures).toEqual([]);
});

test.each(["before", "after"] as const)("429 is always before the work (asked for: %s)", async (when) => {
  const { done, routes } = dummyRoutes();
  await using gate = await startGate(routes);
  gate.setFaults({ answer: 429, when, times: 1, retryAfter: 7 });
  const answer = await gate.call("/api/v1/messages", send);
  expect(answer).toMatchObject({ status: 429, headers: { "retry-after": "7", "x-ratelimit-limit": "300" } });
  expect(answer.body).toEqual({ error: expect.any(String) });
  expect(done).toEqual([]);
  expect((await gate.call("/api/v1/messages", send)).status).toBe(201);
});

test("a body that is not what the document says", async () => {
  const { done, routes } = dummyRoutes();
  await using gate = await startGate(routes);
  gate.setFaults({ answer: "malformed", times: 1 }, { answer: "malformed", when: "after", times: 2 });
  const before = await gate.call("/api/v1/messages", send);
  expect([before.status, before.body, done.length]).toEqual([200, undefined, 0]);
  const after = await gate.call("/api/v1/messages", send);
  expect([after.status, after.body, done.length]).toEqual([201, undefined, 1]);
  expect(after.headers["content-type"]).toMatch(/^application\/json/);
  // Also what the handler refused.
  expect(await gate.call("/api/v1/messages/1")).toMatchObject({ status: 404, body: undefined });
});

test.each(["before", "after"] as const)("reset: the connection breaks %s the work", async (when) => {
  const { done, routes } = dummyRoutes();
  await using gate = await startGate(routes);
  gate.setFaults({ answer: "reset", when, times: 1 });
  await expect(gate.call("/api/v1/messages", send)).rejects.toMatchObject({ code: "ECONNRESET" });
  expect(done).toEqual(when === "after" ? ["send"] : []);
  expect((await gate.call("/api/v1/messages", send)).status).toBe(201);
});

test.each(["before", "after"] as const)("hang: no answer %s the work, until the sandbox closes", async (when) => {
  const { done, routes } = dummyRoutes();
  const gate = await startGate(routes);
  gate.setFaults({ answer: "hang", when, endpoint: "POST /messages" });
  let ended = false;
  const hanging = gate.call("/api/v1/messages", send).finally(() => {
    ended = true;
  });
  const rejected = expect(hanging).rejects.toMatchObject({ code: "ECONNRESET" });
  await until("the call arrived", () => gate.limits.usage(gate.account).apiCalls === 1);
  // The others are answered meanwhile.
  expect((await gate.call("/api/v1/me")).status).toBe(200);
  expect(ended).toBe(false);
  expect(done.toSorted()).toEqual(when === "after" ? ["me", "send"] : ["me"]);
  await gate.app.close();
  await rejected;
});

test("a fault meets its endpoint only, whatever the parameter is called; one without an endpoint meets all", async () => {
  const { routes } = dummyRoutes();
  await using gate = await startGate(routes);
  const statuses = async () => [
    (await gate.call("/api/v1/me")).status,
    (await gate.call("/api/v1/messages/1")).status,
    (await gate.call("/api/v1/messages", send)).status,
    (await gate.call("/api/v1/nowhere")).status,
  ];
  gate.setFaults({ answer: 500, endpoint: "GET /messages/{id}" });
  expect(await statuses()).toEqual([200, 500, 201, 404]);
  gate.setFaults({ answer: 500, endpoint: "GET /messages" });
  expect(await statuses()).toEqual([200, 404, 201, 404]);
  gate.setFaults({ answer: 500 });
  expect(await statuses()).toEqual([500, 500, 500, 500]);
});

test("what the gate refuses meets no fault, and uses none up", async () => {
  const { routes } = dummyRoutes();
  await using gate = await startGate(routes);
  gate.setFaults({ answer: 500, times: 1 });
  expect((await gate.call("/api/v1/me", { key: null })).status).toBe(401);
  expect((await gate.call("/api/v1/me")).status).toBe(500);
  expect((await gate.call("/api/v1/me")).status).toBe(200);
});

test("a share of all calls, and times counted anew when set anew", async () => {
  const { routes } = dummyRoutes();
  await using gate = await startGate(routes, { isUnlimited: true });
  gate.setFaults({ answer: 502, share: 0.3 });
  let spoilt = 0;
  for (let one = 0; one < 400; one += 1) if ((await gate.call("/api/v1/me")).status === 502) spoilt += 1;
  // Five standard deviations to each side; the seed is fixed.
  expect(spoilt).toBeGreaterThan(74);
  expect(spoilt).toBeLessThan(166);
  for (const round of [1, 2]) {
    gate.setFaults({ answer: 500, times: 1 });
    expect([round, (await gate.call("/api/v1/me")).status, (await gate.call("/api/v1/me")).status]).toEqual([round, 500, 200]);
  }
});
