// messaging-service-api.md, "States and transitions".
import { expect, test } from "vitest";
import { day, hour, minute, type Sent, second, serviceOfFile } from "./harness.ts";
import { startReceiver } from "./receiver.ts";
import { expectError } from "./shapes.ts";

const service = await serviceOfFile();

/**
 * Sends to a phone of that ending and watches the record by polling; gives the statuses in the
 * order seen, and when each was seen first.
 */
async function life(ending: string, { forMs = 70 * second, everyMs = 200 } = {}) {
  const account = await service.account({ plan: "enterprise" });
  const sent = await account.api<Sent>("POST", "/messages", {
    to: service.phone(ending),
    template: { id: await account.template() },
  });
  const seen = [{ status: sent.body.status, afterMs: 0 }];
  for (let afterMs = everyMs; afterMs <= forMs; afterMs += everyMs) {
    await service.advance(everyMs);
    const { status } = await account.message(sent.body.id);
    if (status !== seen.at(-1)?.status) seen.push({ status, afterMs });
  }
  return { account, sent, seen, words: seen.map(({ status }) => status) };
}

test("Message status: pending is the status in the answer of POST /messages", async () => {
  const account = await service.account();
  const sent = await account.api<Sent>("POST", "/messages", {
    to: service.phone(),
    template: { id: await account.template() },
  });
  expect(sent.body.status).toBe("pending");
  expect((await account.api<Sent>("GET", `/messages/${sent.body.id}`)).body.status).toBe("pending");
});

test("Message status: pending, sent, delivered, read follow in that order", async () => {
  for (let tries = 0; tries < 8; tries++) {
    const { words } = await life("1234");
    expect([
      ["pending", "sent", "delivered", "read"],
      ["pending", "sent", "delivered"],
    ]).toContainEqual(words);
    if (words.length === 4) return;
  }
  expect.unreachable("no message was read");
});

test("Message status: a message leaves and reaches the phone within seconds", async () => {
  const { seen } = await life("0001");
  expect(seen.map(({ status }) => status)).toStrictEqual(["pending", "sent", "delivered"]);
  expect(seen[1]?.afterMs).toBeLessThan(10 * second);
  expect(seen[2]?.afterMs).toBeLessThan(30 * second);
});

test("Message status: with read receipts off it stays delivered", async () => {
  const { account, sent } = await life("0001");
  await service.advance(2 * day);
  expect((await account.api<Sent>("GET", `/messages/${sent.body.id}`)).body.status).toBe(
    "delivered",
  );
});

test("Message status: failed for a number without an account on the network, with an errorCode", async () => {
  const { account, sent } = await life("0000");
  const { body } = await account.api<{ status: string; errorCode: unknown }>(
    "GET",
    `/messages/${sent.body.id}`,
  );
  expect(body.status).toBe("failed");
  expect(String(body.errorCode)).toMatch(/^\w+$/);
});

test("Message status: received is a message that the customer sent", async () => {
  const account = await service.account();
  const inbound = await account.customerWrites(service.phone(), "Hola, ¿están abiertos?");
  expect((await account.message(inbound.id)).text).toBe("Hola, ¿están abiertos?");
  const record = async () => (await account.api<Sent>("GET", `/messages/${inbound.id}`)).body;
  expect(await record()).toMatchObject({
    id: inbound.id,
    wamid: inbound.wamid,
    status: "received",
  });
  await service.advance(hour);
  expect(await record()).toMatchObject({ status: "received" });
});

test("Message status: a 201 is only acceptance: the message can still take failed afterwards", async () => {
  const { sent, words } = await life("0000");
  expect(sent.status).toBe(201);
  expect(words.at(0)).toBe("pending");
  expect(words.at(-1)).toBe("failed");
});

const waiting = { steps: [{ type: "wait", ms: 10_000 }] };

test("Conversation rules: starting a second automation in a conversation gives 409 until the first has ended", async () => {
  const account = await service.account();
  const [phone, other] = [service.phone(), service.phone()];
  const [first, second] = [await account.automation(waiting), await account.automation(waiting)];
  const start = (id: string, to: string) =>
    account.api("POST", `/automations/${id}/runs`, { phone: to, data: {} });
  expect((await start(first.id, phone)).status).toBe(201);
  expectError(await start(first.id, phone), 409);
  expectError(await start(second.id, phone), 409);
  // Another conversation is free.
  expect((await start(first.id, other)).status).toBe(201);
  await service.advance(minute);
  expect((await start(second.id, phone)).status).toBe(201);
});

const greeting = {
  trigger: "customer-message",
  steps: [{ type: "send", text: "Gracias por escribir" }],
};

test("Conversation rules: after a human reply automations keep still in that conversation for 24 hours", async () => {
  const account = await service.account();
  const [phone, other] = [service.phone(), service.phone()];
  await account.automation(greeting);
  const replies = async (to: string) =>
    (await account.messages()).filter(
      (message) => message.phone === to && message.text === "Gracias por escribir",
    ).length;
  const runs = async () => (await account.runs()).length;

  await account.customerWrites(phone);
  await service.advance(second);
  expect(await replies(phone)).toBe(1);

  const human = await account.box("POST", "/colleague/replies", {
    phone,
    text: "Le atiende Carla",
  });
  expect(human.status).toBe(201);
  await service.advance(day - 1);
  await account.customerWrites(phone);
  expect(await runs()).toBe(1);
  // Other conversations go on: the automation itself is alive.
  await account.customerWrites(other);
  expect(await runs()).toBe(2);

  await service.advance(1);
  await account.customerWrites(phone);
  expect(await runs()).toBe(3);
  await service.advance(second);
  expect([await replies(phone), await replies(other)]).toStrictEqual([2, 1]);
});

test("Conversation rules: a customer message in those 24 hours reaches the team and starts no automation", async () => {
  const account = await service.account();
  const phone = service.phone();
  await account.automation(greeting);
  await account.customerWrites(phone);
  await service.advance(minute);
  expect(await account.runs()).toHaveLength(1);
  await account.box("POST", "/colleague/replies", { phone, text: "Le atiende Carla" });
  await service.advance(hour);
  await account.customerWrites(phone, "¿Sigue ahí?");
  await service.advance(hour);
  expect(await account.runs()).toHaveLength(1);
  expect((await account.messages()).map(({ text, status }) => [text, status])).toContainEqual([
    "¿Sigue ahí?",
    "received",
  ]);
});

test("Conversation rules: a run in progress sends nothing more once a human has replied", async () => {
  const account = await service.account();
  const phone = service.phone();
  const steps = [
    { type: "wait", ms: 10_000 },
    { type: "send", text: "¿Puedo ayudar en algo más?" },
  ];
  await account.automation({ trigger: "customer-message", steps });
  await account.customerWrites(phone);
  await service.advance(second);
  await account.box("POST", "/colleague/replies", { phone, text: "Le atiende Carla" });
  await service.advance(hour);
  expect((await account.messages()).map(({ text }) => text)).not.toContain(
    "¿Puedo ayudar en algo más?",
  );
});

test("Conversation rules: the human reply itself appears in the chat and its status is reported", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  const phone = service.phone("0001");
  await account.webhook(url);
  await account.customerWrites(phone);
  await account.box("POST", "/colleague/replies", { phone, text: "Le atiende Carla" });
  await service.advance(minute);
  const reply = (await account.messages()).find(({ text }) => text === "Le atiende Carla");
  for (const { body } of await receiver.arrivals(url, 2))
    expect(body.data["wamid"]).toBe(reply?.wamid);
});
