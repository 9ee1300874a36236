import { expect, test } from "vitest";
import { errorOf, meet, resultOf } from "./meeting.ts";

test("starts a run once, and reports 409 for a run in progress or a paused automation, and 404 for an unknown one", async () => {
  const meeting = await meet();
  const { sandbox, phone } = meeting;
  const { client } = meeting.join();
  const steps = [{ type: "wait", ms: 60_000 }];
  const { id } = (await sandbox.control("POST", "/automations", { name: "Seguimiento", steps })).body as { id: string };
  const body = { phone: phone(), name: "Julia", data: { pedido: "17" } };

  const { runId } = await resultOf(meeting, client.startRun(id, body));
  expect(sandbox.runs()).toMatchObject([{ id: runId, status: "running", data: { pedido: "17" } }]);
  expect(await errorOf(meeting, client.startRun(id, body))).toMatchObject({ kind: "conflict", outcome: "not-done" });
  await meeting.pass(61_000);
  expect(sandbox.runs()).toMatchObject([{ status: "completed" }]);
  const second = await resultOf(meeting, client.startRun(id, body));
  expect(second.runId > runId).toBe(true);

  await sandbox.control("PATCH", `/automations/${id}`, { status: "paused" });
  expect(await errorOf(meeting, client.startRun(id, { ...body, phone: phone() }))).toMatchObject({ kind: "conflict" });
  const nobody = "00000000-0000-7000-8000-000000000000";
  expect(await errorOf(meeting, client.startRun(nobody, body))).toMatchObject({ kind: "not-found" });
  expect(await errorOf(meeting, client.startRun(id, { name: "sin teléfono" }))).toMatchObject({
    kind: "validation",
    failure: { problems: [{ path: "phone" }] },
  });
  expect(sandbox.runs()).toHaveLength(2);
  // A 409 is not tried again.
  expect((await meeting.usage()).apiCalls.used).toBe(6);
});

test("reports 402 with the required plan for a plan without the API and for the contact limit", async () => {
  const meeting = await meet({ plan: "escala" });
  const { sandbox, phone } = meeting;
  const { client } = meeting.join();
  const [template] = sandbox.templates();
  const known = phone();
  await sandbox.control("PUT", `/contacts/${encodeURIComponent(known)}`, {});
  await sandbox.control("PATCH", "/accounts/main", { contactLimit: 1 });
  const send = (to: string) => client.sendMessage({ to, template: { id: template?.id ?? "" } });
  const cause = { type: "upgrade", reason: "limit", resource: "contacts", plan: "escala", limit: 1, used: 1, suggested: "enterprise" };
  const error = await errorOf(meeting, send(phone()));
  expect(error).toMatchObject({ kind: "plan", status: 402, outcome: "not-done", failure: { cause } });
  expect(error.text).toMatch(/contactos/);
  // The limit is for new contacts, and a plan error stops no other call.
  await resultOf(meeting, send(known));

  await sandbox.control("PATCH", "/accounts/main", { plan: "growth" });
  const failure = { kind: "plan", cause: { type: "upgrade", resource: "api", suggested: "escala" } };
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "plan", failure });
});
