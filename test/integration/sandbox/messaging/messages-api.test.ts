import { expect, test } from "vitest";
import { z } from "zod";
import { addTemplate, day, minute } from "../../../unit/sandbox/messaging/service.ts";
import { idOf, problemsOf, startApi } from "./api.ts";

const to = "+5491122331234";

test("POST /messages gives exactly id, wamid, status and conversationId; GET follows its life", async () => {
  await using api = await startApi();
  const sent = await api.post("/messages", { to, template: { id: api.template.id, variables: { nombre: "Eva" } } });
  const message = api.world.messages.get(idOf(sent));
  const body = { id: message?.id, wamid: message?.wamid, status: "pending", conversationId: message?.conversationId };
  expect(sent).toEqual({ status: 201, body });
  const first = await api.get(`/messages/${idOf(sent).toUpperCase()}`);
  expect(first).toEqual({
    status: 200,
    body: {
      ...body,
      contactId: message?.contactId,
      phone: to,
      phoneNumberId: "main-1",
      text: "Hola Eva, tu pedido A-1 está listo.",
      templateId: api.template.id,
      campaignId: null,
      createdAt: "2026-11-21T12:00:00.000Z",
      statusAt: "2026-11-21T12:00:00.000Z",
    },
  });
  api.clock.advance(5_000);
  expect(await api.get(`/messages/${body.id}`)).toMatchObject({ body: { status: "delivered" } });
  expect(api.failures).toEqual([]);
});

test("errorCode comes with failed only, a number or a text", async () => {
  await using api = await startApi();
  const codes: unknown[] = [];
  for (const phone of ["+5491122330000", "+5491122330008", "+5491122330001"]) {
    const id = idOf(await api.post("/messages", { to: phone, template: { id: api.template.id } }));
    api.clock.advance(minute);
    const { body } = await api.get(`/messages/${id}`);
    const { status, errorCode } = z.object({ status: z.string(), errorCode: z.unknown().optional() }).parse(body);
    codes.push([status, errorCode]);
  }
  expect(codes).toEqual([
    ["failed", 131026],
    ["failed", "131049"],
    ["delivered", undefined],
  ]);
});

test("bodies that are not what the document says: validation errors that name each field", async () => {
  await using api = await startApi();
  const template = { id: api.template.id };
  const fields = async (body: unknown) => problemsOf(await api.post("/messages", body)).map((problem) => problem.split(":")[0]);
  expect(await fields({})).toEqual(["to"]);
  expect(await fields({ to: 5491122331234, template })).toEqual(["to"]);
  expect(await fields({ to: "+1234", template })).toEqual(["to"]);
  expect(await fields({ to: `+${"5".repeat(32)}`, template })).toEqual(["to"]);
  expect(await fields({ to })).toEqual(["text"]);
  expect(await fields({ to, text: "hola", template })).toEqual(["text"]);
  expect(await fields({ to, text: "" })).toEqual(["text"]);
  expect(await fields({ to, text: "x".repeat(4097) })).toEqual(["text"]);
  expect(await fields({ to, text: null })).toEqual(["text"]);
  expect(await fields({ to, template: {} })).toEqual(["template.id"]);
  expect(await fields({ to, template: { id: "aviso" } })).toEqual(["template.id"]);
  expect(await fields({ to, template: { ...template, variables: { nombre: 1 } } })).toEqual(["template.variables.nombre"]);
  expect(await fields({ to, template, phoneNumberId: 1 })).toEqual(["phoneNumberId"]);
  expect(await fields({ to: 1, text: 1 })).toEqual(["to", "text"]);
  expect(await fields([])).toEqual([""]);
  expect([api.world.contacts.size, api.world.messages.size]).toEqual([0, 0]);
  expect((await api.post("/messages", { to: `+${"5".repeat(31)}`, template, whatever: 1 })).status).toBe(201);
});

test("refusals have the shape {error, cause: null}", async () => {
  await using api = await startApi();
  const waiting = addTemplate(api.world, api.ids(), { status: "pending" });
  const template = { id: api.template.id };
  for (const [body, status] of [
    [{ to: "1122334455", template }, 400],
    [{ to, text: "hola" }, 409],
    [{ to, template: { id: "01900000-0000-7000-8000-000000000000" } }, 404],
    [{ to, template: { id: waiting.id } }, 409],
    [{ to, template, phoneNumberId: "nobody" }, 409],
    [{ to: "+5491122330005", template }, 502],
  ] as const) {
    expect(await api.post("/messages", body)).toEqual({ status, body: { error: expect.stringMatching(/^[A-Z].* .*/), cause: null } });
  }
  api.messaging.receive("main", { phone: to, text: "hola" });
  expect((await api.post("/messages", { to, text: "x".repeat(4096) })).status).toBe(201);
  expect((await api.post("/messages", { to, text: "hola" }, "k-other")).status).toBe(409);
});

test("GET /messages: unknown, another account's and no UUID are 404", async () => {
  await using api = await startApi();
  const id = idOf(await api.post("/messages", { to, template: { id: api.template.id } }));
  const wamid = api.world.messages.get(id)?.wamid ?? "";
  const gone = { status: 404, body: { error: expect.any(String), cause: null } };
  expect(await api.get("/messages/01900000-0000-7000-8000-000000000000")).toEqual(gone);
  expect(await api.get(`/messages/${id}`, "k-other")).toEqual(gone);
  expect(await api.get("/messages/nothing")).toEqual(gone);
  expect(await api.get(`/messages/${encodeURIComponent(wamid)}`)).toEqual(gone);
  expect((await api.get(`/messages/${id}`)).status).toBe(200);
});

test("GET /templates: approved ones of the account, newest first, with the documented fields and no others", async () => {
  await using api = await startApi();
  const newer = addTemplate(api.world, api.ids(), { name: "Nuevo", metaName: "nuevo", language: "es_MX", wabaId: "waba-2", variables: [] });
  for (const status of ["pending", "rejected"] as const) addTemplate(api.world, api.ids(), { status });
  addTemplate(api.world, api.ids(), { account: "other" });
  expect(await api.get("/templates")).toEqual({
    status: 200,
    body: {
      data: [
        { id: newer.id, name: "Nuevo", metaName: "nuevo", language: "es_MX", category: "UTILITY", wabaId: "waba-2", variables: [] },
        {
          id: api.template.id,
          name: "Aviso",
          metaName: "aviso",
          language: "es_AR",
          category: "UTILITY",
          wabaId: "waba-1",
          variables: [
            { name: "nombre", label: "Nombre" },
            { name: "pedido", label: "Pedido" },
          ],
        },
      ],
    },
  });
});

test("GET /campaigns: the latest 100 of the account, newest first, with totals", async () => {
  await using api = await startApi();
  for (let place = 0; place < 103; place += 1) api.campaigns.start("main", { name: `c${place}`, recipients: 0 });
  const last = api.campaigns.start("main", { name: "last", phones: ["+5491122660001", "+5491122660000"] });
  api.clock.advance(day);
  api.messaging.receive("main", { phone: "+5491122660001", text: "sí" });
  const { data } = z.object({ data: z.array(z.looseObject({ name: z.string() })) }).parse((await api.get("/campaigns")).body);
  expect(data.length).toBe(100);
  expect(data.map(({ name }) => name).slice(0, 3)).toEqual(["last", "c102", "c101"]);
  expect(data[0]).toEqual({
    id: last.id,
    name: "last",
    templateId: api.template.id,
    createdAt: "2026-11-21T12:00:00.000Z",
    total: 2,
    sent: 2,
    deliveries: 1,
    reads: 0,
    replies: 1,
    failed: 1,
  });
  expect((await api.get("/campaigns", "k-other")).body).toEqual({ data: [] });
});

test("GET /me: the account of the key", async () => {
  await using api = await startApi();
  await api.post("/contacts", { phone: to });
  expect(await api.get("/me")).toEqual({
    status: 200,
    body: {
      name: "main",
      plan: "escala",
      isConnected: true,
      numbers: [{ phoneNumberId: "main-1", phone: "+541150000001", isConnected: true }],
      contacts: { used: 1, limit: null },
      createdAt: "2026-11-21T12:00:00.000Z",
    },
  });
  expect((await api.get("/me", "k-other")).body).toMatchObject({ name: "other", contacts: { used: 0 } });
});
