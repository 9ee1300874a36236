import { expect, test } from "vitest";
import { phone } from "../../../unit/sandbox/automations/scene.ts";
import { startService } from "./service.ts";

const waiting = [{ type: "wait", ms: 60_000 }] as const;

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
