import { expect, test } from "vitest";
import { z } from "zod";
import { day } from "../../../unit/sandbox/messaging/service.ts";
import { idOf, startApi } from "./api.ts";

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
