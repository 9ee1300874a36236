import { expect, test } from "vitest";
import type { SandboxOptions } from "../../../../src/sandbox/start-sandbox.ts";
import { until } from "../../../harness/until.ts";
import { type Account, startService } from "../conformance/harness.ts";

type Fault = NonNullable<NonNullable<SandboxOptions["faults"]>["api"]>[number];

async function open(options: SandboxOptions = {}) {
  const service = await startService(options);
  const account: Account = await service.account();
  const template = { id: await account.template() };
  return {
    service,
    account,
    faults: (...api: Fault[]) => service.sandbox.setFaults({ api }),
    me: () => account.api("GET", "/me"),
    send: () => account.api("POST", "/messages", { to: "+5491155550002", template }),
    /** How many sends did their work, however they were answered. */
    sent: async () => (await account.messages()).length,
    [Symbol.asyncDispose]: () => service.close(),
  };
}

test.each(["before", "after"] as const)("500 and 502 %s the work", async (when) => {
  await using gate = await open();
  gate.faults(
    { answer: 500, when, times: 1, endpoint: "POST /messages" },
    { answer: 502, when, times: 2, endpoint: "POST /messages", error: "El proveedor dice que no." },
  );
  const answers = [await gate.send(), await gate.send()];
  expect(answers.map(({ status, body }) => [status, body])).toEqual([
    [500, { error: expect.stringContaining("inesperado"), cause: null }],
    [502, { error: "El proveedor dice que no.", cause: null }],
  ]);
  for (const { headers } of answers) expect(headers["content-type"]).toMatch(/^application\/json/);
  expect(await gate.sent()).toBe(when === "after" ? 2 : 0);
  expect([
    (await gate.me()).status,
    (await gate.send()).status,
    (await gate.send()).status,
  ]).toEqual([200, 502, 201]);
  // They came with a valid key, so all count.
  expect(await gate.account.usage()).toMatchObject({
    apiCalls: { used: 5 },
    perMinute: { messages: { last: 4 } },
  });
});

test.each(["before", "after"] as const)(
  "429 is always before the work (asked for: %s)",
  async (when) => {
    await using gate = await open();
    gate.faults({ answer: 429, when, times: 1, retryAfter: 7 });
    const answer = await gate.send();
    expect(answer).toMatchObject({
      status: 429,
      headers: { "retry-after": "7", "x-ratelimit-limit": "300" },
    });
    expect(answer.body).toEqual({ error: expect.any(String) });
    expect(await gate.sent()).toBe(0);
    expect((await gate.send()).status).toBe(201);
  },
);

test("a body that is not what the document says, also of what the service refused", async () => {
  await using gate = await open();
  gate.faults({ answer: "malformed", times: 1 }, { answer: "malformed", when: "after", times: 2 });
  const before = await gate.send();
  expect([before.status, before.body, await gate.sent()]).toEqual([200, undefined, 0]);
  const after = await gate.send();
  expect([after.status, after.body, await gate.sent()]).toEqual([201, undefined, 1]);
  expect(after.headers["content-type"]).toMatch(/^application\/json/);
  expect(await gate.account.api("GET", "/messages/1")).toMatchObject({
    status: 404,
    body: undefined,
  });
});

test.each(["before", "after"] as const)(
  "reset: the connection breaks %s the work",
  async (when) => {
    await using gate = await open();
    gate.faults({ answer: "reset", when, times: 1 });
    await expect(gate.send()).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await gate.sent()).toBe(when === "after" ? 1 : 0);
    expect((await gate.send()).status).toBe(201);
  },
);

test.each(["before", "after"] as const)(
  "hang: no answer %s the work, until the sandbox closes",
  async (when) => {
    const gate = await open();
    gate.faults({ answer: "hang", when, endpoint: "POST /messages" });
    let ended = false;
    const rejected = expect(gate.send().finally(() => (ended = true))).rejects.toMatchObject({
      code: "ECONNRESET",
    });
    await until("the call arrived", async () => (await gate.account.usage()).apiCalls.used === 1);
    // The others are answered meanwhile.
    expect((await gate.me()).status).toBe(200);
    expect([ended, await gate.sent()]).toEqual([false, when === "after" ? 1 : 0]);
    await gate.service.close();
    await rejected;
  },
);

test("a fault meets its endpoint only, whatever the parameter is called; one without an endpoint meets all", async () => {
  await using gate = await open();
  const statuses = async () => [
    (await gate.me()).status,
    (await gate.account.api("GET", "/messages/1")).status,
    (await gate.send()).status,
    (await gate.account.api("GET", "/nowhere")).status,
  ];
  gate.faults({ answer: 500, endpoint: "GET /messages/{messageId}" });
  expect(await statuses()).toEqual([200, 500, 201, 404]);
  expect(() => gate.faults({ answer: 500, endpoint: "GET /messages" })).toThrow(
    "is no endpoint of the API: POST /messages, ",
  );
  gate.faults({ answer: 500 });
  expect(await statuses()).toEqual([500, 500, 500, 500]);
});

test("what the gate refuses meets no fault, and uses none up", async () => {
  await using gate = await open();
  gate.faults({ answer: 500, times: 1 });
  expect((await gate.service.api("GET", "/me")).status).toBe(401);
  expect([(await gate.me()).status, (await gate.me()).status]).toEqual([500, 200]);
});

test("a share of all calls, and times counted anew when set anew", async () => {
  await using gate = await open({ isUnlimited: true });
  gate.faults({ answer: 502, share: 0.3 });
  let spoilt = 0;
  for (let one = 0; one < 400; one += 1) if ((await gate.me()).status === 502) spoilt += 1;
  // Five standard deviations to each side; the seed is fixed.
  expect(spoilt).toBeGreaterThan(74);
  expect(spoilt).toBeLessThan(166);
  for (const round of [1, 2]) {
    gate.faults({ answer: 500, times: 1 });
    expect([round, (await gate.me()).status, (await gate.me()).status]).toEqual([round, 500, 200]);
  }
});
