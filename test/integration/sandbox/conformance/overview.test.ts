// messaging-service-api.md: "Messaging Service API Specification", "What the service does",
// "Versioning".
import { expect, test } from "vitest";
import { type Account, day, type Sent, serviceOfFile } from "./harness.ts";
import { startReceiver } from "./receiver.ts";
import { expectError, uuid } from "./shapes.ts";

const service = await serviceOfFile();

test("Messaging Service API Specification: every path is below /api/v1, and nothing is beside it", async () => {
  const { key, api } = await service.account();
  expect((await api("GET", "/me")).status).toBe(200);
  for (const path of ["/me", "/api/me", "/v1/me"]) {
    const answer = await fetch(service.root + path, {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(answer.status, path).toBe(404);
  }
});

test("Messaging Service API Specification: bodies are JSON with Content-Type application/json, both ways", async () => {
  const account = await service.account();
  const good = await account.api("GET", "/templates");
  expect(good.headers["content-type"]).toMatch(/^application\/json/);
  const bad = await account.api("POST", "/contacts", "{no JSON");
  expect(bad.status).toBe(400);
  expect(bad.headers["content-type"]).toMatch(/^application\/json/);
});

test("What the service does: a message is free text or an approved template", async () => {
  const account = await service.account();
  const to = service.phone();
  await account.customerWrites(to);
  const text = await account.api<Sent>("POST", "/messages", { to, text: "Buen día" });
  const template = await account.api<Sent>("POST", "/messages", {
    to,
    template: { id: await account.template({ body: "Su turno" }) },
  });
  expect([text.status, template.status]).toStrictEqual([201, 201]);
  expect((await account.message(text.body.id)).text).toBe("Buen día");
  expect((await account.message(template.body.id)).text).toBe("Su turno");
});

test("What the service does: one conversation per contact, where sent and received messages appear", async () => {
  const account = await service.account();
  const [to, other] = [service.phone(), service.phone()];
  await account.customerWrites(to, "¿Hay turnos?");
  const first = await account.api<Sent>("POST", "/messages", { to, text: "Sí" });
  const second = await account.api<Sent>("POST", "/messages", { to, text: "A las 10" });
  const elsewhere = await account.api<Sent>("POST", "/messages", {
    to: other,
    template: { id: await account.template() },
  });
  expect(second.body.conversationId).toBe(first.body.conversationId);
  expect(elsewhere.body.conversationId).not.toBe(first.body.conversationId);
  const chat = (await account.messages()).filter(
    ({ conversationId }) => conversationId === first.body.conversationId,
  );
  expect(chat.map(({ text }) => text).sort()).toStrictEqual(["A las 10", "Sí", "¿Hay turnos?"]);
  const again = await account.customerWrites(to, "Gracias");
  expect((await account.message(again.id)).conversationId).toBe(first.body.conversationId);
  expect((await contacts(account)).map(({ phone }) => phone)).toStrictEqual([to, other]);
});

test("What the service does: templates and campaigns are listed, automations are started", async () => {
  const account = await service.account();
  const id = await account.template();
  await account.box("POST", "/campaigns", {
    name: "Promo",
    templateId: id,
    phones: [service.phone()],
  });
  expect((await account.api<{ data: unknown[] }>("GET", "/templates")).body.data).toHaveLength(1);
  expect((await account.api<{ data: unknown[] }>("GET", "/campaigns")).body.data).toHaveLength(1);
  const automation = await account.automation({ steps: [] });
  const run = await account.api("POST", `/automations/${automation.id}/runs`, {
    phone: service.phone(),
    name: "Ana",
    data: {},
  });
  expect(run.status).toBe(201);
});

test("What the service does: status changes and automation results come by signed events, and by polling", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const sent = await account.api<Sent>("POST", "/messages", {
    to: service.phone("0001"),
    template: { id: await account.template() },
  });
  await account
    .automation({ steps: [] })
    .then(({ id }) =>
      account.api("POST", `/automations/${id}/runs`, { phone: service.phone(), data: {} }),
    );
  await service.advance(day);
  const events = (await receiver.arrivals(url, 3)).map(({ body }) => body.event).sort();
  expect(events).toStrictEqual(["automation.completed", "message.status", "message.status"]);
  const polled = await account.api<Sent>("GET", `/messages/${sent.body.id}`);
  expect(polled.body.status).toBe("delivered");
});

test("What the service does: a key never sees another account's records", async () => {
  const [mine, theirs] = [await service.account(), await service.account()];
  const templateId = await theirs.template();
  const to = service.phone();
  const sent = await theirs.api<Sent>("POST", "/messages", { to, template: { id: templateId } });
  const automation = await theirs.automation({ steps: [] });
  await theirs.box("POST", "/campaigns", { name: "Suya", templateId, phones: [to] });

  expectError(await mine.api("GET", `/messages/${sent.body.id}`), 404);
  expectError(
    await mine.api("POST", "/messages", { to: service.phone(), template: { id: templateId } }),
    404,
  );
  expectError(
    await mine.api("POST", `/automations/${automation.id}/runs`, {
      phone: to,
      name: "Ana",
      data: {},
    }),
    404,
  );
  for (const path of [
    "/contacts",
    `/contacts?phone=${encodeURIComponent(to)}`,
    "/templates",
    "/campaigns",
  ]) {
    expect((await mine.api<{ data: unknown[] }>("GET", path)).body.data, path).toStrictEqual([]);
    // The same list is not empty for its owner: the key, and not the path, makes the difference.
    expect((await theirs.api<{ data: unknown[] }>("GET", path)).body.data, path).toHaveLength(1);
  }
});

test("What the service does: ids are UUIDs that grow over time, records of one instant too", async () => {
  const account = await service.account();
  const template = { id: await account.template() };
  const messages: string[] = [];
  for (let count = 0; count < 20; count++) {
    if (count % 5 === 0) await service.advance(1_000);
    messages.push(
      (await account.api<Sent>("POST", "/messages", { to: service.phone(), template })).body.id,
    );
  }
  const newContacts = (await contacts(account)).map(({ id }) => id);
  for (const ids of [messages, newContacts]) {
    expect(ids).toHaveLength(20);
    for (const id of ids) expect(id).toMatch(uuid);
    expect(ids.toSorted()).toStrictEqual(ids);
    expect(new Set(ids).size).toBe(20);
  }
});

test("What the service does: the plans trial and growth have neither API nor webhooks, escala and enterprise have both", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  for (const [plan, api, webhook] of [
    ["trial", 402, 402],
    ["growth", 402, 402],
    ["escala", 200, 201],
    ["enterprise", 200, 201],
  ] as const) {
    await service.box("PATCH", `/accounts/${account.name}`, { plan });
    expect((await account.api("GET", "/me")).status, plan).toBe(api);
    expect((await account.box("POST", "/webhooks", { url: receiver.url() })).status, plan).toBe(
      webhook,
    );
  }
});

test("What the service does: free text needs a message of the contact in the last 24 hours, templates do not", async () => {
  const account = await service.account();
  const to = service.phone();
  const template = { id: await account.template() };
  const text = () => account.api("POST", "/messages", { to, text: "Hola" });
  expectError(await text(), 409);
  expect((await account.api("POST", "/messages", { to, template })).status).toBe(201);
  await account.customerWrites(to);
  expect((await text()).status).toBe(201);
  await service.advance(day + 1_000);
  expectError(await text(), 409);
  expect((await account.api("POST", "/messages", { to, template })).status).toBe(201);
});

test("What the service does: messaging an unknown phone creates the contact", async () => {
  const account = await service.account();
  const to = service.phone();
  expect(await contacts(account)).toStrictEqual([]);
  await account.api("POST", "/messages", { to, template: { id: await account.template() } });
  expect((await contacts(account)).map(({ phone }) => phone)).toStrictEqual([to]);
});

test("Versioning: the version is part of the path: /api/v1 answers, /api/v2 does not", async () => {
  const { key } = await service.account();
  const headers = { authorization: `Bearer ${key}` };
  expect((await fetch(`${service.root}/api/v1/me`, { headers })).status).toBe(200);
  expect((await fetch(`${service.root}/api/v2/me`, { headers })).status).toBe(404);
});

async function contacts(account: Account) {
  return (await account.api<{ data: { id: string; phone: string }[] }>("GET", "/contacts")).body
    .data;
}
