// messaging-service-api.md, "Errors".
import { beforeEach, expect, test } from "vitest";
import { type Account, day, minute, type Sent, second, serviceOfFile } from "./harness.ts";
import {
  expectBareError,
  expectError,
  expectInvalid,
  expectProblem,
  expectSpanish,
  expectUpgrade,
} from "./shapes.ts";

const service = await serviceOfFile();
beforeEach(() => service.box("DELETE", "/blocks"));

const unknownId = "01900000-0000-7000-8000-000000000000";

async function ready() {
  const account = await service.account();
  const template = { id: await account.template() };
  return {
    account,
    template,
    post: (body: unknown) => account.api<Sent>("POST", "/messages", body),
  };
}

/** The phones of the account's contacts, asked without spending a call. */
async function apiMessages(account: Account) {
  return (await account.messages()).filter(({ origin }) => origin === "api");
}

test("Errors: 2xx for success, 4xx for what the caller can correct, 5xx for the service's and the provider's failures", async () => {
  const { account, template, post } = await ready();
  expect((await post({ to: service.phone(), template })).status).toBe(201);
  expect((await post({ template })).status).toBe(400);
  expect((await post({ to: service.phone("0005"), template })).status).toBe(502);
  await service.box("PUT", "/faults", { api: [{ answer: 500, times: 1 }] });
  expect((await account.api("GET", "/me")).status).toBe(500);
  await service.box("DELETE", "/faults");
  expect((await account.api("GET", "/me")).status).toBe(200);
});

test("Errors, Shape: error is an explanation in Spanish, meant to be shown as is", async () => {
  const { account, post } = await ready();
  const answers = [
    await service.api<{ error: string }>("GET", "/me"),
    await account.api<{ error: string }>("GET", `/messages/${unknownId}`),
    await account.api<{ error: string }>("POST", "/messages", {
      to: service.phone(),
      text: "Hola",
    }),
  ];
  for (const { body } of answers) expectSpanish(body.error);
  expect(new Set(answers.map(({ body }) => body.error)).size).toBe(3);
  const [problem] = expectProblem(await post({ text: "Hola" }), "to");
  expectSpanish(problem?.message);
});

test("Errors, Shape: cause is null, except in plan errors and monthly quota errors", async () => {
  const { account, template } = await ready();
  expectError(await service.api("GET", "/me"), 401);
  expectError(await account.api("GET", `/messages/${unknownId}`), 404);
  expectError(await account.api("POST", "/messages", { to: service.phone(), text: "Hola" }), 409);
  expectError(await account.api("POST", "/messages", { to: service.phone("0005"), template }), 502);
  await account.box("PUT", "/usage", { apiCalls: 300_000 });
  expectUpgrade(await account.api("GET", "/me"), 429, { plan: "escala" });
  await service.box("PATCH", `/accounts/${account.name}`, { plan: "growth" });
  expectUpgrade(await account.api("GET", "/me"), 402, { plan: "growth" });
});

test("Errors, Shape: validation errors have in error.message a JSON text that lists problems with path and message", async () => {
  const { account, post } = await ready();
  const answer = await post({ to: 5, text: 7, template: { id: 1 } });
  expect(answer.status).toBe(400);
  const { error } = answer.body as unknown as { error: { message: string } };
  const problems = JSON.parse(error.message) as { path: string[]; message: string }[];
  // All of them at once, each with its place.
  expect(problems.map(({ path }) => path[0]).sort()).toStrictEqual(
    expect.arrayContaining(["template", "text", "to"]),
  );
  for (const problem of problems) expectSpanish(problem.message);
  expectProblem(await account.api("GET", "/contacts?limit=0"), "limit");
});

test("Errors, Codes: 400 for a required field missing: phone in contacts, to in messages", async () => {
  const { account, template, post } = await ready();
  expectProblem(await account.api("POST", "/contacts", { name: "Ana" }), "phone");
  expectProblem(await post({ template }), "to");
  expect(await apiMessages(account)).toStrictEqual([]);
});

test("Errors, Codes: 400 for text and template both or neither", async () => {
  const { account, template, post } = await ready();
  expectInvalid(await post({ to: service.phone(), text: "Hola", template }));
  expectInvalid(await post({ to: service.phone() }));
  expect(await apiMessages(account)).toStrictEqual([]);
});

test("Errors, Codes: 400 for an invalid phone, with a message that asks for international format", async () => {
  const { account, template, post } = await ready();
  expect(expectInvalid(await post({ to: "1123456789", template }))).toMatch(/internacional/i);
  expect(expectInvalid(await account.api("POST", "/contacts", { phone: "1123456789" }))).toMatch(
    /internacional/i,
  );
});

test("Errors, Codes: 400 for limit outside 1 to 200 and for an after that is no UUID", async () => {
  const { account } = await ready();
  for (const limit of [0, 201])
    expectProblem(await account.api("GET", `/contacts?limit=${limit}`), "limit");
  expectProblem(await account.api("GET", "/contacts?after=siguiente"), "after");
});

test("Errors, Codes: 401 for a key missing, misspelled or revoked", async () => {
  const { account } = await ready();
  const { body } = await account.box<{ id: string; key: string }>("POST", "/keys", {});
  expect((await service.api("GET", "/me", { key: body.key })).status).toBe(200);
  await account.box("DELETE", `/keys/${body.id}`);
  for (const call of [{}, { key: `${account.key}0` }, { key: body.key }])
    expectError(await service.api("GET", "/me", call), 401);
});

test("Errors, Codes: 402 when the plan does not permit the action, with why and the plan that would fix it", async () => {
  const { account } = await ready();
  await service.box("PATCH", `/accounts/${account.name}`, { plan: "growth" });
  const answer = await account.api<{ cause: { reason: unknown; suggested: unknown } }>(
    "GET",
    "/me",
  );
  expectUpgrade(answer, 402, { plan: "growth", suggested: "escala" });
  expect(answer.body.cause.reason).toMatch(/^\w+$/);
  // The plan suggested does fix it.
  await service.box("PATCH", `/accounts/${account.name}`, { plan: answer.body.cause.suggested });
  expect((await account.api("GET", "/me")).status).toBe(200);
});

test("Errors, Codes: 402 when creating a key or a webhook URL beyond the plan's maximum", async () => {
  const { account } = await ready();
  for (let count = 1; count < 10; count++)
    expect((await account.box("POST", "/keys", {})).status).toBe(201);
  for (let count = 0; count < 5; count++) await account.webhook(`http://127.0.0.1:9/${count}`);
  const limit = { reason: "limit", plan: "escala", suggested: "enterprise" };
  expectUpgrade(await account.box("POST", "/keys", {}), 402, { ...limit, limit: 10, used: 10 });
  expectUpgrade(await account.box("POST", "/webhooks", { url: "http://127.0.0.1:9/6" }), 402, {
    ...limit,
    limit: 5,
    used: 5,
  });
  expect((await account.box<{ data: unknown[] }>("GET", "/webhooks")).body.data).toHaveLength(5);
});

test("Errors, Codes: the contact limit's 402 is for new contacts only, by POST /contacts or by messaging a new phone", async () => {
  const account = await service.account({ contactLimit: 1 });
  const template = { id: await account.template() };
  const [known, unknown] = [service.phone(), service.phone()];
  const ways = (phone: string) => [
    account.api("POST", "/contacts", { phone }),
    account.api("POST", "/messages", { to: phone, template }),
  ];
  for (const answer of await Promise.all(ways(known))) expect(answer.status).toBeLessThan(300);
  for (const answer of await Promise.all(ways(unknown)))
    expectUpgrade(answer, 402, { reason: "limit", limit: 1, used: 1 });
  for (const answer of await Promise.all(ways(known))) expect(answer.status).toBeLessThan(300);
});

test("Errors, Codes: 404 for a message that is not there and a template that no longer exists", async () => {
  const { account, template, post } = await ready();
  expectError(await account.api("GET", `/messages/${unknownId}`), 404);
  await account.box("DELETE", `/templates/${template.id}`);
  expectError(await post({ to: service.phone(), template }), 404);
  expectError(await post({ to: service.phone(), template: { id: unknownId } }), 404);
  expect(await apiMessages(account)).toStrictEqual([]);
});

test("Errors, Codes: 409 for text after more than 24 hours, with a word on templates", async () => {
  const { account, post } = await ready();
  const to = service.phone();
  await account.customerWrites(to);
  await service.advance(day + second);
  expect(expectError(await post({ to, text: "Hola" }), 409)).toMatch(/plantilla/i);
});

test("Errors, Codes: 409 for a template not yet approved by the provider", async () => {
  const { account, post } = await ready();
  const id = await account.template({ status: "pending" });
  const to = service.phone();
  expectError(await post({ to, template: { id } }), 409);
  await account.box("PATCH", `/templates/${id}`, { status: "approved" });
  expect((await post({ to, template: { id } })).status).toBe(201);
});

test("Errors, Codes: 409 when no connected number has the phoneNumberId", async () => {
  const { account, template, post } = await ready();
  const second = (await account.box<{ phoneNumberId: string }>("POST", "/numbers", {})).body
    .phoneNumberId;
  expectError(await post({ to: service.phone(), template, phoneNumberId: "100000000000001" }), 409);
  expect((await post({ to: service.phone(), template, phoneNumberId: second })).status).toBe(201);
  await account.box("PATCH", `/numbers/${second}`, { isConnected: false });
  expectError(await post({ to: service.phone(), template, phoneNumberId: second }), 409);
  // Another account's number is none of ours.
  expectError(
    await post({
      to: service.phone(),
      template,
      phoneNumberId: (await service.account()).phoneNumberId,
    }),
    409,
  );
});

test("Errors, Codes: 409 while the account's messaging connection is disconnected", async () => {
  const { account, template, post } = await ready();
  const connect = (isConnected: boolean) =>
    service.box("PATCH", `/accounts/${account.name}`, { isConnected });
  await connect(false);
  expectError(await post({ to: service.phone(), template }), 409);
  await connect(true);
  expect((await post({ to: service.phone(), template })).status).toBe(201);
});

test("Errors, Codes: 409 for a run of a paused automation, and while the conversation has one in progress", async () => {
  const { account } = await ready();
  const { id } = await account.automation({
    status: "paused",
    steps: [{ type: "wait", ms: 1_000 }],
  });
  const start = () =>
    account.api("POST", `/automations/${id}/runs`, { phone: "+5491155550000", data: {} });
  const paused = expectError(await start(), 409);
  await account.box("PATCH", `/automations/${id}`, { status: "published" });
  expect((await start()).status).toBe(201);
  expect(expectError(await start(), 409)).not.toBe(paused);
});

test("Errors, Codes: 429 for too many requests", async () => {
  const { account } = await ready();
  let answer = await account.api("GET", "/me");
  while (answer.status === 200) answer = await account.api("GET", "/me");
  expectBareError(answer, 429);
});

test("Errors, Codes: 500 for an unexpected failure", async () => {
  const { account, template, post } = await ready();
  await service.box("PUT", "/faults", {
    api: [{ answer: 500, endpoint: "POST /messages", times: 2 }],
  });
  const to = service.phone();
  expect([
    (await post({ to, template })).status,
    (await account.api("GET", "/me")).status,
    (await post({ to, template })).status,
  ]).toStrictEqual([500, 200, 500]);
  expect(await apiMessages(account)).toStrictEqual([]);
  expect((await post({ to, template })).status).toBe(201);
  await service.box("DELETE", "/faults");
});

test("Errors, Codes: 502 when the provider rejects the message, with its reason in the text, temporary or not", async () => {
  const { account, template, post } = await ready();
  const [unpaid, busy] = [service.phone("0005"), service.phone("0006")];
  const reason = expectError(await post({ to: unpaid, template }), 502);
  expect(reason).toMatch(/pago/i);
  expect(expectError(await post({ to: unpaid, template }), 502)).toBe(reason);
  expect(expectError(await post({ to: busy, template }), 502)).not.toBe(reason);
  expect(await apiMessages(account)).toStrictEqual([]);
  expect((await post({ to: busy, template })).status).toBe(201);
});

test("Errors, Codes: cause.type is upgrade, with reason, resource, plan, limit, used and suggested", async () => {
  const account = await service.account({ contactLimit: 0 });
  const answer = await account.api<{ cause: object }>("POST", "/contacts", {
    phone: service.phone(),
  });
  expectUpgrade(answer, 402, { plan: "escala", suggested: "enterprise" });
  expect(answer.body.cause).toStrictEqual({
    type: "upgrade",
    reason: "limit",
    resource: expect.stringMatching(/^\w+$/),
    plan: "escala",
    limit: 0,
    used: 0,
    suggested: "enterprise",
  });
});

test("Errors, Failures after acceptance: a message accepted with 201 gets failed later, with the provider's code", async () => {
  const { account, template, post } = await ready();
  const sent = await Promise.all(
    ["0000", "0004", "0008"].map((ending) => post({ to: service.phone(ending), template })),
  );
  const seen = new Map<string, unknown>();
  for (let step = 0; step < 70; step++) {
    await service.advance(500);
    for (const { body } of sent) {
      const record = (
        await account.api<{ status: string; errorCode?: unknown }>("GET", `/messages/${body.id}`)
      ).body;
      if (record.status === "failed") seen.set(body.id, record.errorCode);
    }
    // 60 s of polling stay within the cap.
    if (step % 60 === 59) await service.advance(minute);
  }
  expect(sent.map(({ status }) => status)).toStrictEqual([201, 201, 201]);
  expect(sent.map(({ body }) => String(seen.get(body.id)))).toStrictEqual([
    "131026",
    "131047",
    "131049",
  ]);
});

test("Errors, Safe retries: a call that met 500 or a temporary 502 works when it is made again", async () => {
  const { account, template, post } = await ready();
  const to = service.phone("0006");
  await service.box("PUT", "/faults", { api: [{ answer: 500, endpoint: "GET /me", times: 1 }] });
  expect([
    (await account.api("GET", "/me")).status,
    (await account.api("GET", "/me")).status,
  ]).toStrictEqual([500, 200]);
  expect([
    (await post({ to, template })).status,
    (await post({ to, template })).status,
  ]).toStrictEqual([502, 201]);
  await service.box("DELETE", "/faults");
});

test("Errors, Safe retries: POST /contacts can be retried freely", async () => {
  const { account } = await ready();
  const phone = service.phone();
  await service.box("PUT", "/faults", {
    api: [{ answer: 500, when: "after", endpoint: "POST /contacts", times: 1 }],
  });
  const statuses: number[] = [];
  for (let count = 0; count < 3; count++)
    statuses.push((await account.api("POST", "/contacts", { phone, name: "Ana" })).status);
  await service.box("DELETE", "/faults");
  expect(statuses[0]).toBe(500);
  for (const status of statuses.slice(1)) expect(status).toBeLessThan(300);
  expect((await account.api<{ data: unknown[] }>("GET", "/contacts")).body.data).toHaveLength(1);
});

test("Errors, Safe retries: a retry of POST /messages may deliver twice; the chat shows whether the first went out", async () => {
  const { account, template, post } = await ready();
  const to = service.phone();
  await service.box("PUT", "/faults", {
    api: [{ answer: 500, when: "after", endpoint: "POST /messages", times: 1 }],
  });
  expect((await post({ to, template })).status).toBe(500);
  await service.box("DELETE", "/faults");
  const chat = async () => (await account.messages()).filter(({ phone }) => phone === to);
  expect(await chat()).toHaveLength(1);
  const retried = await post({ to, template });
  expect(retried.status).toBe(201);
  expect(await chat()).toHaveLength(2);
  expect((await account.api<Sent>("GET", `/messages/${retried.body.id}`)).body.id).toBe(
    retried.body.id,
  );
});
