// messaging-service-api.md, "Endpoints": POST /automations/{id}/runs.
import { expect, test } from "vitest";
import { type Account, minute, second, serviceOfFile } from "./harness.ts";
import { startReceiver } from "./receiver.ts";
import { expectBareError, expectError, expectInvalid, expectUpgrade, uuid } from "./shapes.ts";

const service = await serviceOfFile();

const waits = { steps: [{ type: "wait", ms: 5_000 }] };

function start(
  account: Account,
  id: string,
  body: object = { phone: service.phone(), name: "Ana", data: {} },
) {
  return account.api<{ runId: string }>("POST", `/automations/${id}/runs`, body);
}

test("POST /automations/{id}/runs: starts the automation, which must be published and have a manual-start trigger", async () => {
  const account = await service.account();
  const { id } = await account.automation({ status: "draft", ...waits });
  const hook = await account.automation({ trigger: "incoming-webhook", ...waits });
  const customer = await account.automation({ trigger: "customer-message", ...waits });
  for (const refusedId of [id, hook.id, customer.id]) {
    // The document names no status for these; that nothing starts is what it says.
    const { status } = await start(account, refusedId);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
  }
  expect(await account.runs()).toStrictEqual([]);
  await account.box("PATCH", `/automations/${id}`, { status: "published" });
  expect((await start(account, id)).status).toBe(201);
});

test("POST /automations/{id}/runs: an id that is no automation of the account starts nothing", async () => {
  const account = await service.account();
  expectError(await start(account, "01900000-0000-7000-8000-000000000000"), 404);
  expect([400, 404]).toContain((await start(account, "bienvenida")).status);
  expect(await account.runs()).toStrictEqual([]);
});

test("POST /automations/{id}/runs: needs plan escala or enterprise", async () => {
  const account = await service.account();
  const { id } = await account.automation(waits);
  for (const plan of ["trial", "growth"]) {
    await service.box("PATCH", `/accounts/${account.name}`, { plan });
    expectUpgrade(await start(account, id), 402, { plan, suggested: "escala" });
  }
  expect(await account.runs()).toStrictEqual([]);
  for (const plan of ["escala", "enterprise"]) {
    await service.box("PATCH", `/accounts/${account.name}`, { plan });
    expect((await start(account, id)).status, plan).toBe(201);
  }
});

test("POST /automations/{id}/runs: phone, name and data reach the automation as its contact and its variables", async () => {
  const account = await service.account();
  const templateId = await account.template({
    body: "{{nombre}}: pedido {{pedido}}",
    variables: [
      { name: "nombre", example: "?" },
      { name: "pedido", example: "?" },
    ],
  });
  const { id } = await account.automation({
    steps: [{ type: "send", templateId, variables: { pedido: "{{numero}}" } }],
  });
  const phone = service.phone();
  expect((await start(account, id, { phone, name: "Ana", data: { numero: "A-7" } })).status).toBe(
    201,
  );
  await service.advance(minute);
  expect((await account.messages()).map(({ phone: to, text }) => [to, text])).toStrictEqual([
    [phone, "Ana: pedido A-7"],
  ]);
});

test("POST /automations/{id}/runs: data holds text only, and the phone is an international one", async () => {
  const account = await service.account();
  const { id } = await account.automation(waits);
  const phone = service.phone();
  for (const body of [
    { phone, data: { pedido: 7 } },
    { phone, data: "A-7" },
    { phone: "hola", data: {} },
    { phone: 7, data: {} },
    { phone, name: 7 },
  ]) {
    expectInvalid(await start(account, id, body));
  }
  expect(await account.runs()).toStrictEqual([]);
});

test("POST /automations/{id}/runs: 201 with exactly {runId}", async () => {
  const account = await service.account();
  const answer = await start(account, (await account.automation(waits)).id);
  expect(answer.status).toBe(201);
  expect(answer.body).toStrictEqual({ runId: expect.stringMatching(uuid) });
});

test("POST /automations/{id}/runs: 409 while the automation is paused", async () => {
  const account = await service.account();
  const { id } = await account.automation({ status: "paused", ...waits });
  expectError(await start(account, id), 409);
  await account.box("PATCH", `/automations/${id}`, { status: "published" });
  expect((await start(account, id)).status).toBe(201);
  await account.box("PATCH", `/automations/${id}`, { status: "paused" });
  expectError(await start(account, id), 409);
  expect(await account.runs()).toHaveLength(1);
});

test("POST /automations/{id}/runs: 409 while the conversation has an automation in progress", async () => {
  const account = await service.account();
  const { id } = await account.automation(waits);
  const body = { phone: service.phone(), data: {} };
  expect((await start(account, id, body)).status).toBe(201);
  await service.advance(4 * second);
  expectError(await start(account, id, body), 409);
  await service.advance(minute);
  expect((await start(account, id, body)).status).toBe(201);
});

test("POST /automations/{id}/runs: 429 as in Limits", async () => {
  const account = await service.account();
  const { id } = await account.automation(waits);
  while ((await account.api("GET", "/me")).status === 200);
  const answer = await start(account, id);
  expectBareError(answer, 429);
  expect(answer.headers["x-ratelimit-limit"]).toBe("300");
  expect(await account.runs()).toStrictEqual([]);
});

test("POST /automations/{id}/runs: does not deduplicate: the same call again starts another run", async () => {
  const account = await service.account();
  const { id } = await account.automation(waits);
  const body = { phone: service.phone(), name: "Ana", data: { pedido: "A-7" } };
  const first = await start(account, id, body);
  await service.advance(minute);
  const again = await start(account, id, body);
  expect([first.status, again.status]).toStrictEqual([201, 201]);
  expect(again.body.runId).not.toBe(first.body.runId);
  expect(await account.runs()).toHaveLength(2);
});

test("POST /automations/{id}/runs: a phone without an account fails the run later: automation.failed with its runId", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url, { events: ["automation.failed", "automation.completed"] });
  const { id } = await account.automation({
    steps: [{ type: "send", templateId: await account.template() }],
  });
  const answer = await start(account, id, { phone: service.phone("0000"), data: {} });
  expect(answer.status).toBe(201);
  await service.advance(minute);
  const [event] = await receiver.arrivals(url, 1);
  expect(event?.body).toMatchObject({
    event: "automation.failed",
    data: { runId: answer.body.runId, error: expect.any(String) },
  });
  await service.delivered();
  expect(receiver.at(url)).toHaveLength(1);
});

test("POST /automations/{id}/runs: a template no longer approved fails the run later: automation.failed with its runId", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url, { events: ["automation.failed"] });
  const templateId = await account.template();
  const { id } = await account.automation({ steps: [{ type: "send", templateId }] });
  await account.box("PATCH", `/templates/${templateId}`, { status: "rejected" });
  const answer = await start(account, id);
  expect(answer.status).toBe(201);
  await service.advance(minute);
  const [event] = await receiver.arrivals(url, 1);
  expect(event?.body.data).toMatchObject({ runId: answer.body.runId, error: expect.any(String) });
});
