import { expect, test } from "vitest";
import { errorOf, hour, meet, resultOf } from "./meeting.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

test("sends text only within the window, and templates always", async () => {
  const meeting = await meet();
  const { sandbox, phone } = meeting;
  const { client } = meeting.join();
  const to = phone();
  const early = await errorOf(meeting, client.sendMessage({ to, text: "¿Venís mañana?" }));
  expect(early).toMatchObject({ kind: "conflict", status: 409, outcome: "not-done" });
  expect(early.text).toMatch(/24 horas/);

  sandbox.customerWrites(to, "Hola");
  const sent = await resultOf(meeting, client.sendMessage({ to, text: "¿Venís mañana?" }));
  expect(sent).toEqual({
    id: expect.stringMatching(uuid),
    wamid: expect.stringMatching(/^wamid\./),
    status: "pending",
    conversationId: expect.stringMatching(uuid),
  });

  await meeting.clock.advance(24 * hour + 1);
  expect(await errorOf(meeting, client.sendMessage({ to, text: "¿Y?" }))).toMatchObject({ kind: "conflict" });
  const [template] = meeting.sandbox.templates();
  const again = await resultOf(meeting, client.sendMessage({ to, template: { id: template?.id ?? "" } }));
  expect(again.conversationId).toBe(sent.conversationId);
  expect((again.id ?? "") > (sent.id ?? "")).toBe(true);
});

test("lists templates newest first, and fills them from the request and the contact", async () => {
  const meeting = await meet();
  const { sandbox, phone } = meeting;
  const { client } = meeting.join();
  const response = await fetch(`${sandbox.url}/api/v1/templates`, { headers: { authorization: `Bearer ${sandbox.key}` } });
  const { data: templates } = (await response.json()) as { data: { id: string; name: string }[] };
  expect(templates.map(({ name }) => name)).toEqual(["Aviso de turno", "Saludo", "Bienvenida"]);
  const [appointment] = templates;
  expect(appointment).toMatchObject({
    category: "UTILITY",
    language: "es_AR",
    variables: [
      { name: "nombre", label: "Nombre" },
      { name: "fecha", label: "Fecha del turno" },
    ],
  });
  const to = phone();
  await sandbox.control("PUT", `/contacts/${encodeURIComponent(to)}`, { name: "Julia" });
  const { id } = await resultOf(
    meeting,
    client.sendMessage({ to, template: { id: appointment?.id ?? "", variables: { fecha: "viernes" } } }),
  );
  // What the document does not show passes through untouched.
  expect(await resultOf(meeting, client.getMessage(id ?? ""))).toMatchObject({ id, text: "Julia, te esperamos el viernes." });
  expect(sandbox.messages()).toHaveLength(1);
});

test.each([
  ["1234", ["pending", "sent", "delivered"], null],
  ["0000", ["pending", "failed"], "131026"],
  ["0001", ["pending", "sent", "delivered"], null],
  ["0002", ["pending"], null],
  ["0004", ["pending", "sent", "failed", "delivered"], null],
  ["0008", ["pending", "failed"], "131049"],
])("polls see the statuses of a message to …%s", async (ending, words, code) => {
  const meeting = await meet();
  const { client } = meeting.join();
  const [template] = meeting.sandbox.templates();
  const { id, wamid } = await resultOf(meeting, client.sendMessage({ to: meeting.phone(ending), template: { id: template?.id ?? "" } }));
  const seen: string[] = [];
  let last = await resultOf(meeting, client.getMessage(id ?? ""));
  // Five times a second is more than anybody should ask; here it shows that no step is missed.
  for (let asked = 0; asked < 60; asked += 1) {
    if (seen.at(-1) !== last.status) seen.push(last.status);
    expect(last).toMatchObject({ id, wamid });
    expect(last.errorCode === null).toBe(last.status !== "failed");
    await meeting.pass(200);
    last = await resultOf(meeting, client.getMessage(id ?? ""));
  }
  expect(seen.filter((status) => status !== "read")).toEqual(words);
  expect(last.errorCode).toBe(code);
});

test("rejects an invalid request, unknown number, unknown template and disconnected account", async () => {
  const meeting = await meet();
  const { sandbox, phone } = meeting;
  const { client } = meeting.join();
  const [template] = meeting.sandbox.templates();
  const body = { to: phone(), template: { id: template?.id ?? "" } };
  const nobody = "00000000-0000-7000-8000-000000000000";

  const both = await errorOf(meeting, client.sendMessage({ ...body, text: "y" }));
  expect(both).toMatchObject({ kind: "validation", status: 400, failure: { problems: [{ path: "text" }] } });
  const missing = await errorOf(meeting, client.sendMessage({ ...body, to: undefined } as never));
  expect(missing).toMatchObject({ kind: "validation", text: null, failure: { problems: [{ path: "to" }] } });
  // A phone that is none comes with a text instead of problems.
  const noPhone = await errorOf(meeting, client.sendMessage({ ...body, to: "1155550000" }));
  expect(noPhone).toMatchObject({ kind: "validation", failure: { problems: [] } });
  expect(noPhone.text).toMatch(/formato internacional/);
  expect(await errorOf(meeting, client.sendMessage({ ...body, phoneNumberId: "1" }))).toMatchObject({ kind: "conflict" });
  expect(await errorOf(meeting, client.sendMessage({ ...body, template: { id: nobody } }))).toMatchObject({ kind: "not-found" });
  expect(await errorOf(meeting, client.getMessage(nobody))).toMatchObject({ kind: "not-found", status: 404, outcome: "not-done" });
  await sandbox.control("PATCH", `/templates/${template?.id}`, { status: "pending" });
  expect(await errorOf(meeting, client.sendMessage(body))).toMatchObject({ kind: "conflict" });
  await sandbox.control("PATCH", "/accounts/main", { isConnected: false });
  expect(await errorOf(meeting, client.sendMessage({ ...body, template: { id: template?.id ?? "" } }))).toMatchObject({ kind: "conflict" });
  expect(sandbox.messages()).toEqual([]);
  // None of these was tried a second time.
  expect((await meeting.usage()).apiCalls.used).toBe(8);
});
