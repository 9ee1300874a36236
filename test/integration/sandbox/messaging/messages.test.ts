import { expect, test } from "vitest";
import { startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import type { EventRecord, MessageRecord } from "../../../../src/sandbox/world.ts";
import {
  type Account,
  day,
  type Sent,
  type Service,
  serviceOfFile,
} from "../conformance/harness.ts";

const service = await serviceOfFile();

async function open(setup: Parameters<Service["account"]>[0] = {}) {
  const account: Account = await service.account({ plan: "enterprise", ...setup });
  const template = { id: await account.template() };
  return {
    account,
    template,
    send: async (ending: string) =>
      (await account.api<Sent>("POST", "/messages", { to: service.phone(ending), template })).body,
    message: async ({ id }: { id: string }) =>
      (await account.box<MessageRecord>("GET", `/messages/${id}`)).body,
    /** All that was reported of the message, as `status` or `status code`. */
    async reported({ wamid }: Sent) {
      const { data } = (
        await account.box<{ data: EventRecord[] }>(
          "GET",
          `/events?wamid=${encodeURIComponent(wamid)}`,
        )
      ).body;
      return data.map(({ body }) => {
        const { status, errorCode } = JSON.parse(body).data;
        return errorCode === undefined ? status : `${status} ${JSON.stringify(errorCode)}`;
      });
    },
    set: (id: string, status: string, errorCode?: string | number) =>
      account.box<MessageRecord>("POST", `/messages/${id}/status`, { status, errorCode }),
  };
}

test.each([
  ["0000 has no account on the network", ["failed 131026"], "failed"],
  ["0001 has read receipts off", ["sent", "delivered"], "delivered"],
  ["0002 stays pending for ever", [], "pending"],
  ["0003 is switched off", ["sent"], "sent"],
  [
    "0004 fails, and another device gets it afterwards",
    ["sent", "failed 131047", "delivered"],
    "delivered",
  ],
  ["0007 is read before it is delivered, and stays read", ["sent", "read", "delivered"], "read"],
  ["0008 meets the marketing limit, its code as text", ['failed "131049"'], "failed"],
])("%s", async (name, seen, status) => {
  const { send, message, reported } = await open();
  const sent = await send(name.slice(0, 4));
  await service.advance(day);
  expect(await reported(sent)).toEqual(seen);
  expect(await message(sent)).toMatchObject({ status, future: [] });
});

test("0010 has every status reported twice", async () => {
  const { send, reported } = await open();
  const sent = await send("0010");
  await service.advance(day);
  const seen = await reported(sent);
  expect(seen.slice(0, 4)).toEqual(["sent", "sent", "delivered", "delivered"]);
});

test("0006 is rejected once per phone and account", async () => {
  const [one, other] = [await open(), await open()];
  const to = service.phone("0006");
  const statuses: number[] = [];
  for (const { account, template } of [one, one, one, other])
    statuses.push((await account.api("POST", "/messages", { to, template })).status);
  expect(statuses).toEqual([502, 201, 201, 502]);
});

/** The lives of messages to 1,000 phones, as planned when they are sent. */
async function planned(speed: number) {
  await using sandbox = await startSandbox({ seed: "lives", speed });
  sandbox.clock.freeze();
  const phones = Array.from(
    { length: 1_000 },
    (_, place) => `+549112230${String(place).padStart(4, "0")}`,
  );
  await sandbox.control("POST", "/campaigns", { name: "lives", phones, perSecond: 10_000 });
  sandbox.clock.advance(0);
  return new Map(
    sandbox
      .messages()
      .map(({ phone, statusAt, future }) => [
        phone,
        future.map(({ at, status }) => ({ status, after: at - statusAt })),
      ]),
  );
}

test("delays are plausible, and four in five are read; 0009 is ten times as slow, and the speed divides", async () => {
  const [usual, fast] = [await planned(1), await planned(10)];
  let read = 0;
  let all = 0;
  for (const [phone, life] of usual) {
    for (const [place, { status, after }] of life.entries()) {
      const sooner = fast.get(phone)?.[place];
      expect(sooner?.status).toBe(status);
      expect(Math.abs(after / 10 - (sooner?.after ?? 0))).toBeLessThanOrEqual(1);
    }
    if (/00(0[0-8]|10)$/.test(phone)) continue;
    const slowness = phone.endsWith("0009") ? 10 : 1;
    const [sent = 0, delivered = 0, last] = life.map(({ after }) => after / slowness);
    expect(sent).toBeGreaterThanOrEqual(199);
    expect(sent).toBeLessThanOrEqual(1_001);
    expect(delivered - sent).toBeGreaterThanOrEqual(499);
    expect(delivered - sent).toBeLessThanOrEqual(4_001);
    all += 1;
    if (last === undefined) continue;
    read += 1;
    expect(last - delivered).toBeGreaterThanOrEqual(2_999);
    expect(last - delivered).toBeLessThanOrEqual(60_001);
  }
  expect(all).toBe(990);
  expect(read / all).toBeGreaterThan(0.77);
  expect(read / all).toBeLessThan(0.83);
});

test("a status may be set, also backwards: it ends the life, pending is not reported, and a bare failure has a code", async () => {
  const { send, reported, set } = await open();
  const sent = await send("1234");
  for (const [status, given, errorCode] of [
    ["read", undefined, undefined],
    ["failed", undefined, 131000],
    ["failed", "rate_limited", "rate_limited"],
    ["failed", undefined, "rate_limited"],
    ["pending", undefined, undefined],
  ] as const) {
    const { body } = await set(sent.id, status, given);
    expect([body.status, body.errorCode, body.future]).toEqual([status, errorCode, []]);
  }
  await service.advance(day);
  expect(await reported(sent)).toEqual([
    "read",
    "failed 131000",
    'failed "rate_limited"',
    'failed "rate_limited"',
  ]);
});

test("what the customer wrote has no status to set, nor has a message of another account's", async () => {
  const { account, send, set } = await open();
  const received = await account.customerWrites(service.phone());
  expect((await set(received.id, "read")).status).toBe(400);
  const { id } = await send("1234");
  expect((await set(id, "received")).status).toBe(400);
  expect((await (await open()).set(id, "read")).status).toBe(404);
  expect((await set(id, "read")).status).toBe(200);
});

test("who writes is let in at the contact limit, and gives a name once", async () => {
  const { account } = await open({ contactLimit: 0 });
  const phone = service.phone();
  await account.customerWrites(phone, "hola", "Ana");
  await account.customerWrites(phone, "¿hay alguien?", "Otra");
  expect((await account.box("GET", `/contacts/${phone}`)).body).toMatchObject({ name: "Ana" });
});

test("POST /contacts: 201 for a new one, 200 for one whose attributes are added to", async () => {
  const { account } = await open();
  const phone = "+5491122331234";
  const made = await account.api<object>("POST", "/contacts", {
    phone,
    name: "Ana",
    attributes: { ciudad: "Salta" },
  });
  expect([made.status, made.body]).toEqual([
    201,
    {
      id: expect.any(String),
      phone,
      name: "Ana",
      attributes: { ciudad: "Salta" },
      conversationId: expect.any(String),
      createdAt: new Date(await service.now()).toISOString(),
    },
  ]);
  const updated = await account.api("POST", "/contacts", {
    phone: "+54 9 11 2233-1234",
    attributes: { pedido: "7" },
  });
  expect([updated.status, updated.body]).toEqual([
    200,
    { ...made.body, attributes: { ciudad: "Salta", pedido: "7" } },
  ]);
  const after = async (id: string) =>
    (await account.api<{ data: unknown[] }>("GET", `/contacts?after=${id}`)).body.data.length;
  expect(await after("00000000-0000-0000-0000-000000000000")).toBe(1);
  expect(await after("ffffffff-ffff-ffff-ffff-ffffffffffff")).toBe(0);
});

test("GET /messages/{id} and GET /me have exactly the fields of the page", async () => {
  const { account, send, message } = await open();
  const sent = await send("0001");
  const { contactId, phone, templateId } = await message(sent);
  const now = new Date(await service.now()).toISOString();
  const { phoneNumberId } = account;
  expect((await account.api("GET", `/messages/${sent.id.toUpperCase()}`)).body).toEqual({
    ...sent,
    contactId,
    phone,
    phoneNumberId,
    text: "Su pedido está en camino",
    templateId,
    campaignId: null,
    createdAt: now,
    statusAt: now,
  });
  expect((await account.api("GET", "/me")).body).toEqual({
    name: account.name,
    plan: "enterprise",
    isConnected: true,
    numbers: [{ phoneNumberId, phone: expect.stringMatching(/^\+5411\d{8}$/), isConnected: true }],
    contacts: { used: 1, limit: null },
    createdAt: now,
  });
});
