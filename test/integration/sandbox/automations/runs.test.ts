import { expect, test } from "vitest";
import { phone } from "../../../unit/sandbox/automations/scene.ts";
import { startService } from "./service.ts";

const waiting = [{ type: "wait", ms: 60_000 }] as const;

test("201 with the runId alone; `phone` is all that is needed", async () => {
  await using service = await startService();
  const automation = service.scene.automation([...waiting]);
  const answer = await service.post(`/api/v1/automations/${automation.id}/runs`, { phone }, service.key);
  const [run] = service.scene.world.runs.list("main");
  expect(answer).toMatchObject({ status: 201, body: { runId: run?.id } });
  expect(Object.keys(answer.body as object)).toEqual(["runId"]);
  expect(run).toMatchObject({ automationId: automation.id, data: {}, status: "running" });
});

test("name and data reach the contact and the run; an id in capitals is the same id", async () => {
  await using service = await startService();
  const automation = service.scene.automation([...waiting]);
  const path = `/api/v1/automations/${automation.id.toUpperCase()}/runs`;
  expect((await service.post(path, { phone, name: "Ana", data: { pedido: "7" } }, service.key)).status).toBe(201);
  expect(service.scene.world.runs.list("main")[0]?.data).toEqual({ pedido: "7" });
  expect(service.scene.world.contacts.find("main", phone)?.name).toBe("Ana");
});

test.each([
  ["no phone", {}, "phone"],
  ["a phone that is no text", { phone: 5 }, "phone"],
  ["data that is no object", { phone, data: [] }, "data"],
  ["a value of data that is no text", { phone, data: { pedido: 7 } }, "data"],
  ["no body", "", undefined],
])("400 for %s, naming the field", async (_, body, path) => {
  await using service = await startService();
  const automation = service.scene.automation([...waiting]);
  const answer = await service.post(`/api/v1/automations/${automation.id}/runs`, body, service.key);
  expect(answer.status).toBe(400);
  const problems = JSON.parse((answer.body as { error: { message: string } }).error.message);
  expect(problems).toHaveLength(1);
  expect(problems[0].path[0]).toBe(path);
  expect(service.scene.world.runs.size).toBe(0);
});

test("404 for an automation of nobody or of another account", async () => {
  await using service = await startService();
  const other = service.scene.automation([...waiting], { account: "other" });
  for (const id of [other.id, "01900000-0000-7000-8000-000000000000", "nonsense"]) {
    const answer = await service.post(`/api/v1/automations/${id}/runs`, { phone }, service.key);
    expect(answer).toMatchObject({ status: 404, body: { error: expect.any(String), cause: null } });
  }
});

test("409 for a paused one, a draft, another trigger, and a conversation with a run in progress", async () => {
  await using service = await startService();
  const good = service.scene.automation([...waiting]);
  const bad = [
    service.scene.automation([...waiting], { status: "paused" }),
    service.scene.automation([...waiting], { status: "draft" }),
    service.scene.automation([...waiting], { trigger: "incoming-webhook" }),
  ];
  for (const { id } of bad) {
    const answer = await service.post(`/api/v1/automations/${id}/runs`, { phone }, service.key);
    expect(answer).toMatchObject({ status: 409, body: { error: expect.any(String), cause: null } });
  }
  expect((await service.post(`/api/v1/automations/${good.id}/runs`, { phone }, service.key)).status).toBe(201);
  expect((await service.post(`/api/v1/automations/${good.id}/runs`, { phone }, service.key)).status).toBe(409);
});

test("an incoming webhook needs no key, starts a run with every other field as a variable, and counts as a call", async () => {
  await using service = await startService();
  const { hookId } = service.scene.automation([...waiting], { trigger: "incoming-webhook" });
  const answer = await service.post(`/hooks/automations/${hookId}`, { phone, name: "Ana", pedido: "7", total: 12.5, lineas: [{ a: 1 }] });
  const [run] = service.scene.world.runs.list("main");
  expect(answer).toMatchObject({ status: 201, body: { runId: run?.id } });
  expect(run?.data).toEqual({ pedido: "7", total: "12.5", lineas: '[{"a":1}]' });
  expect(service.limits.usage(service.scene.account).apiCalls).toBe(1);
  // Refused ones are calls too.
  expect((await service.post(`/hooks/automations/${hookId}`, { phone })).status).toBe(409);
  expect((await service.post(`/hooks/automations/${hookId}`, {})).status).toBe(400);
  expect((await service.post(`/hooks/automations/${hookId}`, "{")).status).toBe(400);
  expect((await service.post(`/hooks/automations/${hookId}`, "[]")).status).toBe(400);
  expect(service.limits.usage(service.scene.account).apiCalls).toBe(5);
  expect(service.failures).toEqual([]);
});

test("no incoming webhook where there is no automation with that trigger; nobody's calls are counted", async () => {
  await using service = await startService();
  const { hookId } = service.scene.automation([...waiting]);
  for (const id of [hookId, "nonsense"]) {
    expect(await service.post(`/hooks/automations/${id}`, { phone })).toMatchObject({ status: 404, body: { cause: null } });
  }
  expect(service.limits.usage(service.scene.account).apiCalls).toBe(0);
});

test("incoming webhooks share the per-minute cap with the API, both ways, and the monthly quota", async () => {
  await using service = await startService();
  const { scene } = service;
  const { hookId } = scene.automation([], { trigger: "incoming-webhook", status: "paused" });
  const manual = scene.automation([], { status: "paused" });
  const hook = () => service.post(`/hooks/automations/${hookId}`, { phone });
  for (let call = 0; call < 150; call += 1) {
    expect((await hook()).status).toBe(409);
    expect((await service.post(`/api/v1/automations/${manual.id}/runs`, { phone }, service.key)).status).toBe(409);
  }
  const capped = await hook();
  expect(capped.status).toBe(429);
  expect(capped.headers.get("x-ratelimit-limit")).toBe("300");
  expect(Number(capped.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(Object.keys(capped.body as object)).toEqual(["error"]);
  expect((await service.post(`/api/v1/automations/${manual.id}/runs`, { phone }, service.key)).status).toBe(429);
  scene.clock.advance(60_000);
  expect((await hook()).status).toBe(409);

  service.limits.usage(scene.account).apiCalls = 300_000;
  expect(await hook()).toMatchObject({ status: 429, body: { cause: { type: "upgrade", resource: "apiCalls", limit: 300_000 } } });
});
