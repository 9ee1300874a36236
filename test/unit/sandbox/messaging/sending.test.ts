import { expect, test } from "vitest";
import { createGrowingIds, phoneInWamid } from "../../../../src/sandbox/ids.ts";
import { createService, day } from "./service.ts";

const phone = "+5491122331234";

test("a message to a stranger makes the contact and the conversation, and appears in it", () => {
  const { send, world, template } = createService();
  const message = send(phone);
  const contact = world.contacts.find("main", phone);
  expect(contact).toMatchObject({ phone, name: null, attributes: {}, conversationId: message.conversationId });
  expect(message).toMatchObject({
    contactId: contact?.id,
    origin: "api",
    status: "pending",
    phoneNumberId: "main-1",
    templateId: template.id,
  });
  expect(phoneInWamid(message.wamid)).toBe(phone.slice(1));
  expect(world.messages.find("main", message.wamid)).toBe(message);
  const second = send(phone);
  expect(second.conversationId).toBe(message.conversationId);
  expect(second.id > message.id).toBe(true);
  expect([world.contacts.size, world.conversations.size, world.messages.size]).toEqual([1, 1, 2]);
});

test.each(["5491122331234", "+0491122331234", "+abcdefgh", "+54 9 11 phone", "+1234", `+${"1".repeat(32)}`, "54+91122331234", "hello!"])(
  "%s is no phone: the text asks for international format",
  (to) => {
    const { refusal, send, world } = createService();
    const { status, error } = refusal(() => send(to));
    expect(status).toBe(400);
    expect(error).toMatch(/formato internacional/);
    expect(world.contacts.size).toBe(0);
  },
);

test("5 and 31 digits are phones, and one phone written in two ways is one contact", () => {
  const { send, world } = createService();
  expect(send("+12345").phone).toBe("+12345");
  const longest = `+${"5".repeat(31)}`;
  expect(send(longest).phone).toBe(longest);
  expect(send("+54 (9) 11 2233-1234").phone).toBe(phone);
  expect(send(phone).contactId).toBe(world.contacts.find("main", phone)?.id);
  expect(world.contacts.size).toBe(3);
});

test("the sending number: the one asked for, else the first connected, 409 without one", () => {
  const { messaging, account, refusal, send, template } = createService();
  const from = (phoneNumberId: string) => messaging.send("main", { to: phone, phoneNumberId, template: { id: template.id } }, "api");
  account.numbers.push({ phoneNumberId: "main-2", phone: "+541150000002", isConnected: true });
  expect(send(phone).phoneNumberId).toBe("main-1");
  expect(from("main-2").phoneNumberId).toBe("main-2");
  expect(refusal(() => from("main-3"))).toMatchObject({ status: 409, error: expect.stringMatching(/phoneNumberId/) });
  const [first, second] = account.numbers as [(typeof account.numbers)[number], (typeof account.numbers)[number]];
  first.isConnected = false;
  expect(send(phone).phoneNumberId).toBe("main-2");
  expect(refusal(() => from("main-1")).status).toBe(409);
  second.isConnected = false;
  expect(refusal(() => send(phone))).toMatchObject({ status: 409, error: expect.stringMatching(/ningún número conectado/) });
  first.isConnected = true;
  account.isConnected = false;
  expect(refusal(() => send(phone))).toMatchObject({ status: 409, error: expect.stringMatching(/desconectada/) });
  account.isConnected = true;
  expect(send(phone).phoneNumberId).toBe("main-1");
});

test("at the contact limit only strangers are refused, and nothing is made or sent", () => {
  const { account, messaging, refusal, send, world, published, clock } = createService();
  send(phone);
  account.contactLimit = 1;
  for (const attempt of [() => send("+5491122335678"), () => messaging.contactFor("main", "+5491122335678")]) {
    const { status, body } = refusal(attempt);
    expect(status).toBe(402);
    expect(body).toEqual({
      error: expect.stringMatching(/contactos/),
      cause: { type: "upgrade", reason: "limit", resource: "contacts", plan: "escala", limit: 1, used: 1, suggested: "enterprise" },
    });
  }
  clock.advance(day);
  expect([world.contacts.size, world.messages.size, new Set(published.map(({ wamid }) => wamid)).size]).toEqual([1, 1, 1]);
  expect(send(phone).status).toBe("pending");
  expect(messaging.contactFor("main", phone, { name: "Ana" }).isNew).toBe(false);
  // Who writes is let in.
  expect(messaging.receive("main", { phone: "+5491122335678", text: "hola" }).status).toBe("received");
  account.contactLimit = 3;
  expect(send("+5491122339999").status).toBe("pending");
});

test("0005 is rejected for good, 0006 once per phone and account; nothing is made", () => {
  const { refusal, send, world } = createService();
  for (let time = 0; time < 3; time += 1) {
    expect(refusal(() => send("+5491122330005"))).toMatchObject({ status: 502, error: expect.stringMatching(/método de pago/) });
  }
  for (const temporary of ["+5491122330006", "+5491133330006"]) {
    expect(refusal(() => send(temporary))).toMatchObject({ status: 502, error: expect.stringMatching(/no está disponible/) });
    expect(world.contacts.find("main", temporary)).toBeUndefined();
    expect(send(temporary).status).toBe("pending");
    expect(send(temporary).status).toBe("pending");
  }
  expect(world.messages.size).toBe(4);
});

test("what the customer writes is received, emits nothing, and fills in the name once", () => {
  const { messaging, published, clock, world } = createService();
  const message = messaging.receive("main", { phone, name: "Ana", text: "hola" });
  expect(message).toMatchObject({ status: "received", origin: "customer", text: "hola", future: [] });
  messaging.receive("main", { phone, name: "Otra", text: "¿hay alguien?" });
  expect(world.contacts.find("main", phone)?.name).toBe("Ana");
  clock.advance(day);
  expect(published).toEqual([]);
});

test("a colleague's reply goes out like any message, and only one that went out keeps automations still", () => {
  const { messaging, refusal, clock, send, statuses, world, ids } = createService();
  const { conversationId } = send(phone);
  const conversation = world.conversations.get(conversationId);
  expect(refusal(() => messaging.reply("main", conversationId, "hola")).status).toBe(409);
  expect(conversation?.humanRepliedAt).toBeNull();
  messaging.receive("main", { phone, text: "¿hola?" });
  clock.advance(5_000);
  const reply = messaging.reply("main", conversationId, "hola");
  expect(reply).toMatchObject({ origin: "chat", conversationId, status: "pending" });
  expect(conversation?.humanRepliedAt).toBe(clock.now());
  clock.advance(day);
  expect(statuses(reply.wamid).slice(0, 2)).toEqual(["sent", "delivered"]);
  expect(refusal(() => messaging.reply("main", ids(), "hola")).status).toBe(404);
  expect(refusal(() => messaging.reply("other", conversationId, "hola")).status).toBe(404);
});

test("ids grow in the order of what is made, on a clock that stands still", () => {
  const { send, world, random } = createService();
  for (let place = 0; place < 50; place += 1) send(`+54911223${place + 31_000}`);
  for (const table of [world.contacts, world.messages, world.conversations]) {
    const made = table.list("main").map(({ id }) => id);
    expect(made).toEqual([...made].sort());
  }
  expect(createGrowingIds({ now: () => 1, random })()).toMatch(/^[0-9a-f-]{36}$/);
});
