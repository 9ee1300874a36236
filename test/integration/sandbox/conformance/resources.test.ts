// messaging-service-api.md, "Resources and their fields".
import { expect, test } from "vitest";
import { minute, type Sent, serviceOfFile } from "./harness.ts";
import { startReceiver } from "./receiver.ts";
import { uuid } from "./shapes.ts";

const service = await serviceOfFile();

const statuses = ["pending", "sent", "delivered", "read", "failed", "received"];

interface MessageRecord extends Sent {
  readonly errorCode?: string | number;
}

async function send(to: string) {
  const account = await service.account();
  const sent = await account.api<Sent>("POST", "/messages", {
    to,
    template: { id: await account.template() },
  });
  expect(sent.status, sent.text).toBe(201);
  const read = async () =>
    (await account.api<MessageRecord>("GET", `/messages/${sent.body.id}`)).body;
  return { account, sent: sent.body, read };
}

test("Message: id is a UUID, and the one that GET /messages/{id} takes", async () => {
  const { sent, read } = await send(service.phone());
  expect(sent.id).toMatch(uuid);
  expect((await read()).id).toBe(sent.id);
});

test("Message: wamid is text, and the identifier in the message.status event", async () => {
  await using receiver = await startReceiver();
  const { account, sent, read } = await send(service.phone());
  const url = receiver.url();
  await account.webhook(url);
  expect(sent.wamid).toMatch(/^\S{20,}$/);
  expect(sent.wamid).not.toBe(sent.id);
  expect((await read()).wamid).toBe(sent.wamid);
  await service.advance(minute);
  for (const { body } of await receiver.arrivals(url, 2))
    expect(body).toMatchObject({ event: "message.status", data: { wamid: sent.wamid } });
});

test("Message: status is always one of the six words", async () => {
  const account = await service.account({ plan: "enterprise" });
  const template = { id: await account.template() };
  const seen = new Set<string>();
  for (const ending of ["0000", "0001", "0002", "0003", "0004", "0007", "0010", "1234"]) {
    await account.api("POST", "/messages", { to: service.phone(ending), template });
  }
  await account.customerWrites(service.phone());
  for (let step = 0; step < 80; step++) {
    for (const { status } of await account.messages()) seen.add(status);
    await service.advance(1_000);
  }
  expect([...seen].sort()).toStrictEqual(statuses.toSorted());
});

test("Message: conversationId is a UUID", async () => {
  const { sent, read } = await send(service.phone());
  expect(sent.conversationId).toMatch(uuid);
  expect((await read()).conversationId).toBe(sent.conversationId);
});

test("Message: errorCode is there when the status is failed, and only then", async () => {
  const { read } = await send(service.phone("0000"));
  expect(await read()).not.toHaveProperty("errorCode");
  await service.advance(minute);
  const failed = await read();
  expect(failed.status).toBe("failed");
  expect(["string", "number"]).toContain(typeof failed.errorCode);
  // 0004 failed on its way to being delivered.
  for (const ending of ["0001", "0004"]) {
    const other = await send(service.phone(ending));
    await service.advance(minute);
    expect((await other.read()).status).toBe("delivered");
    expect(await other.read()).not.toHaveProperty("errorCode");
  }
});

test("Template: listed with exactly id, name, metaName, language, category, wabaId and variables", async () => {
  const account = await service.account();
  const id = await account.template({
    name: "Pedido listo",
    body: "Hola {{nombre}}, tu pedido {{pedido}} está listo",
    variables: [
      { name: "nombre", label: "Nombre del cliente", example: "Ana" },
      { name: "pedido", label: "Número de pedido", example: "A-1", fallback: "sin número" },
    ],
    language: "es_AR",
    category: "UTILITY",
  });
  const { body } = await account.api<{ data: Record<string, unknown>[] }>("GET", "/templates");
  expect(body.data).toStrictEqual([
    {
      id,
      name: "Pedido listo",
      metaName: expect.stringMatching(/^[a-z0-9_]+$/),
      language: "es_AR",
      category: "UTILITY",
      wabaId: expect.stringMatching(/^\S+$/),
      variables: [
        { name: "nombre", label: "Nombre del cliente" },
        { name: "pedido", label: "Número de pedido" },
      ],
    },
  ]);
  expect(id).toMatch(uuid);
});

test("Template: id is what template.id takes when sending", async () => {
  const account = await service.account();
  await account.template();
  const { body } = await account.api<{ data: { id: string }[] }>("GET", "/templates");
  const answer = await account.api("POST", "/messages", {
    to: service.phone(),
    template: { id: body.data[0]?.id },
  });
  expect(answer.status).toBe(201);
});

test("Template: a variable's name is its key in template.variables", async () => {
  const account = await service.account();
  const id = await account.template({
    body: "Código {{codigo}}",
    variables: [{ name: "codigo", label: "Código", example: "0" }],
  });
  const sent = await account.api<Sent>("POST", "/messages", {
    to: service.phone(),
    template: { id, variables: { codigo: "4711" } },
  });
  expect((await account.message(sent.body.id)).text).toBe("Código 4711");
});

test("Template: without a category it is UTILITY, the one value seen", async () => {
  const account = await service.account();
  await account.template();
  const { body } = await account.api<{ data: { category: string }[] }>("GET", "/templates");
  expect(body.data.map(({ category }) => category)).toStrictEqual(["UTILITY"]);
});

test("Contact: has a UUID, a phone number, a first name and free attributes", async () => {
  const account = await service.account();
  const phone = service.phone();
  await account.box("PUT", `/contacts/${encodeURIComponent(phone)}`, {
    name: "Ana",
    attributes: { ciudad: "Rosario" },
  });
  const { body } = await account.api<{ data: { id: string; phone: string }[] }>("GET", "/contacts");
  expect(body.data).toHaveLength(1);
  expect(body.data[0]?.id).toMatch(uuid);
  expect(body.data[0]?.phone).toBe(phone);
  // The document does not name the fields of the name and of the attributes.
  expect(Object.values(body.data[0] ?? {})).toContain("Ana");
  expect(Object.values(body.data[0] ?? {})).toContainEqual({ ciudad: "Rosario" });
});

test("Campaign: a bulk send, listed with its totals of deliveries, reads and replies", async () => {
  const account = await service.account();
  const phones = [
    service.phone("0001"),
    service.phone("0001"),
    service.phone("0007"),
    service.phone("0000"),
  ];
  await account.box("POST", "/campaigns", {
    name: "Promo",
    templateId: await account.template(),
    phones,
  });
  const totals = async () =>
    (
      await account.api<{ data: { deliveries: number; reads: number; replies: number }[] }>(
        "GET",
        "/campaigns",
      )
    ).body.data[0];
  await service.advance(10 * minute);
  expect(await totals()).toMatchObject({ deliveries: 3, reads: 1, replies: 0 });
  await account.box("POST", `/customers/${encodeURIComponent(phones[0] ?? "")}/replies`, {
    text: "Me interesa",
  });
  expect(await totals()).toMatchObject({ deliveries: 3, reads: 1, replies: 1 });
});

test("Automation run: created by POST /automations/{id}/runs and known by its runId", async () => {
  const account = await service.account();
  const { id } = await account.automation({ steps: [{ type: "wait", ms: 1_000 }] });
  const answer = await account.api<{ runId: string }>("POST", `/automations/${id}/runs`, {
    phone: service.phone(),
    name: "Ana",
    data: {},
  });
  expect(answer.body.runId).toMatch(uuid);
  expect((await account.runs()).map((run) => run.id)).toStrictEqual([answer.body.runId]);
});

test("Automation run: a conversation has at most one at a time", async () => {
  const account = await service.account();
  const phone = service.phone();
  const { id } = await account.automation({ steps: [{ type: "wait", ms: 1_000 }] });
  const start = () => account.api("POST", `/automations/${id}/runs`, { phone, data: {} });
  const answers = await Promise.all([start(), start(), start()]);
  expect(answers.map(({ status }) => status).sort()).toStrictEqual([201, 409, 409]);
  expect(await account.runs()).toHaveLength(1);
});

test("Account: GET /me returns the account's data", async () => {
  const [one, other] = [await service.account(), await service.account({ plan: "enterprise" })];
  const [mine, theirs] = [await one.api("GET", "/me"), await other.api("GET", "/me")];
  expect(mine.status).toBe(200);
  expect(mine.body).toBeTypeOf("object");
  expect(mine.body).not.toStrictEqual(theirs.body);
});

test("Event envelope: exactly id, event, createdAt and data", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const data = { anything: ["goes", { deep: true }] };
  for (const event of ["message.status", "automation.failed", "something.else"])
    await account.box("POST", "/events", { event, data });
  const posts = await receiver.arrivals(url, 3);
  const now = await service.now();
  for (const { body } of posts) {
    expect(Object.keys(body).sort()).toStrictEqual(["createdAt", "data", "event", "id"]);
    expect(body.id).toMatch(uuid);
    expect(body.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(body.createdAt).toBe(new Date(now).toISOString());
    expect(body.data).toStrictEqual(data);
  }
  expect(posts.map(({ body }) => body.event).sort()).toStrictEqual([
    "automation.failed",
    "message.status",
    "something.else",
  ]);
  expect(new Set(posts.map(({ body }) => body.id)).size).toBe(3);
});
