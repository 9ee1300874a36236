// messaging-service-api.md, "Endpoints": POST /messages and GET /messages/{id}.
import { expect, test } from "vitest";
import { type Account, day, hour, minute, type Sent, second, serviceOfFile } from "./harness.ts";
import { expectError, expectInvalid, expectProblem, expectUpgrade, uuid } from "./shapes.ts";

const service = await serviceOfFile();

async function ready() {
  const account = await service.account({ plan: "enterprise" });
  const template = { id: await account.template() };
  const post = (body: unknown) => account.api<Sent>("POST", "/messages", body);
  return { account, template, post };
}

async function contactsOf(account: Account) {
  return (await account.api<{ data: { phone: string }[] }>("GET", "/contacts")).body.data.map(
    ({ phone }) => phone,
  );
}

test("Endpoints: every endpoint needs the Authorization header", async () => {
  const account = await service.account();
  const id = await account.template();
  for (const [method, path, body] of [
    ["POST", "/messages", { to: service.phone(), template: { id } }],
    ["GET", `/messages/${id}`, undefined],
    ["GET", "/templates", undefined],
    ["GET", "/contacts", undefined],
    ["POST", "/contacts", { phone: service.phone() }],
    ["GET", "/campaigns", undefined],
    ["GET", "/me", undefined],
    ["POST", `/automations/${id}/runs`, { phone: service.phone(), data: {} }],
  ] as const) {
    expectError(await service.api(method, path, { body }), 401);
  }
  await service.box("DELETE", "/blocks");
  expect(await contactsOf(account)).toStrictEqual([]);
});

test("POST /messages: sends exactly one message, with either text or template", async () => {
  const { account, template, post } = await ready();
  const to = service.phone();
  await account.customerWrites(to);
  const before = (await account.messages()).length;
  expect((await post({ to, text: "Hola" })).status).toBe(201);
  expect((await post({ to, template })).status).toBe(201);
  expect(await account.messages()).toHaveLength(before + 2);
});

test("POST /messages: to is required, text, and 6 to 32 characters long", async () => {
  const { account, template, post } = await ready();
  expectProblem(await post({ template }), "to");
  for (const to of [5491112345678, null, ["+5491112345678"]])
    expectProblem(await post({ to, template }), "to");
  // No phone has 31 digits: 32 characters are one that is written with room between them.
  const spaced = "+54 (9) (11) - (12) (34) (56) 78";
  expect(spaced).toHaveLength(32);
  for (const to of ["", "+1234", spaced.replace("- ", "-  ")])
    expectInvalid(await post({ to, template }));
  expect(await account.messages()).toStrictEqual([]);
  for (const to of ["+12345", spaced]) expect((await post({ to, template })).status, to).toBe(201);
});

test("POST /messages: to starts with + and has the country code", async () => {
  const { account, template, post } = await ready();
  for (const to of ["5491112345678", "011 4321-0000", "+54abc1234567", "hola que tal"])
    expectInvalid(await post({ to, template }));
  expect(await account.messages()).toStrictEqual([]);
  expect((await post({ to: service.phone(), template })).status).toBe(201);
});

test("POST /messages: phoneNumberId chooses the sending number; without it the first connected one sends", async () => {
  const { account, template, post } = await ready();
  const second = (await account.box<{ phoneNumberId: string }>("POST", "/numbers", {})).body
    .phoneNumberId;
  const sender = async (more: object) => {
    const { body } = await post({ to: service.phone(), template, ...more });
    return (await account.box<{ phoneNumberId: string }>("GET", `/messages/${body.id}`)).body
      .phoneNumberId;
  };
  expect(await sender({})).toBe(account.phoneNumberId);
  expect(await sender({ phoneNumberId: second })).toBe(second);
  expect(await sender({ phoneNumberId: account.phoneNumberId })).toBe(account.phoneNumberId);
  await account.box("PATCH", `/numbers/${account.phoneNumberId}`, { isConnected: false });
  expect(await sender({})).toBe(second);
  expectError(
    await post({ to: service.phone(), template, phoneNumberId: account.phoneNumberId }),
    409,
  );
  expectProblem(await post({ to: service.phone(), template, phoneNumberId: 5 }), "phoneNumberId");
});

test("POST /messages: text is 1 to 4096 characters", async () => {
  const { account, post } = await ready();
  const to = service.phone();
  await account.customerWrites(to);
  for (const text of ["", "a".repeat(4097)]) expectProblem(await post({ to, text }), "text");
  for (const text of [7, ["a"], { a: 1 }]) expectProblem(await post({ to, text }), "text");
  for (const text of ["a", "a".repeat(4096)]) expect((await post({ to, text })).status).toBe(201);
});

test("POST /messages: template has an id (UUID) and variables that map names to text", async () => {
  const { account, template, post } = await ready();
  const to = service.phone();
  expectProblem(await post({ to, template: {} }), "template");
  expectProblem(await post({ to, template: { id: "aviso" } }), "template");
  expectProblem(
    await post({ to, template: { ...template, variables: { nombre: 5 } } }),
    "template",
  );
  expectProblem(await post({ to, template: "aviso" }), "template");
  expect(await account.messages()).toStrictEqual([]);
  expect((await post({ to, template: { ...template, variables: { nombre: "Ana" } } })).status).toBe(
    201,
  );
});

test("POST /messages: text and template together, or neither, give 400", async () => {
  const { account, template, post } = await ready();
  const to = service.phone();
  await account.customerWrites(to);
  expectInvalid(await post({ to, text: "Hola", template }));
  expectInvalid(await post({ to }));
  expect((await account.messages()).filter(({ origin }) => origin === "api")).toStrictEqual([]);
});

test("POST /messages: text outside the 24-hour window gives 409, to the millisecond", async () => {
  const { account, post } = await ready();
  const [to, stranger] = [service.phone(), service.phone()];
  const text = (phone: string) => post({ to: phone, text: "Hola" });
  expectError(await text(stranger), 409);
  await account.customerWrites(to);
  expect((await text(to)).status).toBe(201);
  await service.advance(day - second);
  expect((await text(to)).status).toBe(201);
  // "More than 24 hours" since the customer's last message is too late: 24 hours are not.
  await service.advance(second);
  expect((await text(to)).status).toBe(201);
  await service.advance(1);
  expectError(await text(to), 409);
  // Our own messages do not open it; the customer's next one does.
  await account.customerWrites(to);
  expect((await text(to)).status).toBe(201);
});

test("POST /messages: variables not sent come from the contact, then the fallback, then the example", async () => {
  const { account, post } = await ready();
  const variable = (name: string, more: object = {}) => ({
    name,
    label: name,
    example: `ejemplo de ${name}`,
    ...more,
  });
  const id = await account.template({
    body: "{{nombre}}|{{pedido}}|{{ciudad}}|{{barrio}}|{{calle}}",
    variables: [
      variable("nombre", { fallback: "cliente" }),
      variable("pedido", { fallback: "f-pedido" }),
      variable("ciudad", { fallback: "f-ciudad" }),
      variable("barrio", { fallback: "f-barrio" }),
      variable("calle"),
    ],
  });
  const text = async (to: string, variables?: Record<string, string>) => {
    const sent = await post({
      to,
      template: { id, ...(variables === undefined ? {} : { variables }) },
    });
    expect(sent.status, sent.text).toBe(201);
    return (await account.message(sent.body.id)).text;
  };
  const known = service.phone();
  await account.box("PUT", `/contacts/${encodeURIComponent(known)}`, {
    name: "Ana",
    attributes: { ciudad: "Rosario", pedido: "viejo", nombre: "otro" },
  });
  expect(await text(known)).toBe("Ana|viejo|Rosario|f-barrio|ejemplo de calle");
  // What is sent comes before everything else.
  expect(await text(known, { pedido: "A-7" })).toBe("Ana|A-7|Rosario|f-barrio|ejemplo de calle");
  expect(
    await text(known, { nombre: "Doña Ana", ciudad: "Salta", barrio: "Centro", calle: "Mitre" }),
  ).toBe("Doña Ana|viejo|Salta|Centro|Mitre");
  // A contact that has nothing.
  expect(await text(service.phone())).toBe("cliente|f-pedido|f-ciudad|f-barrio|ejemplo de calle");
});

test("POST /messages: an unknown phone becomes a contact, 402 when the contact limit is reached", async () => {
  const account = await service.account({ contactLimit: 1 });
  const template = { id: await account.template() };
  const [first, second] = [service.phone(), service.phone()];
  const post = (to: string) => account.api("POST", "/messages", { to, template });
  expect((await post(first)).status).toBe(201);
  expectUpgrade(await post(second), 402, {
    reason: "limit",
    plan: "escala",
    limit: 1,
    used: 1,
    suggested: "enterprise",
  });
  expect(await contactsOf(account)).toStrictEqual([first]);
  expect(await account.messages()).toHaveLength(1);
  // A phone that is a contact already can still be written to.
  expect((await post(first)).status).toBe(201);
});

test("POST /messages: the message appears in the chat, in the contact's conversation", async () => {
  const { account, post } = await ready();
  const to = service.phone();
  const inbound = await account.customerWrites(to);
  const sent = await post({ to, text: "Ya lo vemos" });
  expect(sent.body.conversationId).toBe((await account.message(inbound.id)).conversationId);
  expect(await account.message(sent.body.id)).toMatchObject({
    phone: to,
    text: "Ya lo vemos",
    conversationId: sent.body.conversationId,
  });
});

test("POST /messages: counts against both per-minute caps", async () => {
  const account = await service.account();
  const template = { id: await account.template() };
  const to = service.phone();
  for (let count = 0; count < 60; count++)
    expect((await account.api("POST", "/messages", { to, template })).status).toBe(201);
  expect(
    (await account.api("POST", "/messages", { to, template })).headers["x-ratelimit-limit"],
  ).toBe("60");
  // 60 of the 300 requests are spent: 240 are left.
  let admitted = 0;
  while ((await account.api("GET", "/me")).status === 200) admitted += 1;
  expect(admitted).toBeLessThanOrEqual(240);
  expect(admitted).toBeGreaterThanOrEqual(239);
});

test("POST /messages: is not idempotent: the same call twice sends two messages", async () => {
  const { account, template, post } = await ready();
  const to = service.phone();
  const headers = { authorization: `Bearer ${account.key}`, "idempotency-key": "the-same" };
  const call = () => service.api<Sent>("POST", "/messages", { headers, body: { to, template } });
  const [first, second, third] = [await call(), await call(), await post({ to, template })];
  expect(new Set([first.body.id, second.body.id, third.body.id]).size).toBe(3);
  expect(new Set([first.body.wamid, second.body.wamid, third.body.wamid]).size).toBe(3);
  expect(await account.messages()).toHaveLength(3);
});

test("POST /messages: 201 with exactly id, wamid, status pending and conversationId", async () => {
  const { template, post } = await ready();
  const answer = await post({ to: service.phone(), template });
  expect(answer.status).toBe(201);
  expect(answer.body).toStrictEqual({
    id: expect.stringMatching(uuid),
    wamid: expect.stringMatching(/^\S+$/),
    status: "pending",
    conversationId: expect.stringMatching(uuid),
  });
});

test("GET /messages/{id}: takes the service's id and not the wamid", async () => {
  const { account, template, post } = await ready();
  const { body } = await post({ to: service.phone(), template });
  expect((await account.api<Sent>("GET", `/messages/${body.id}`)).body).toMatchObject(body);
  const byWamid = await account.api("GET", `/messages/${encodeURIComponent(body.wamid)}`);
  expect([400, 404]).toContain(byWamid.status);
});

test("GET /messages/{id}: gives the current status and, when failed, the errorCode", async () => {
  const { account, template, post } = await ready();
  const [good, bad] = [
    (await post({ to: service.phone("0001"), template })).body,
    (await post({ to: service.phone("0000"), template })).body,
  ];
  const read = async (id: string) =>
    (await account.api<Record<string, unknown>>("GET", `/messages/${id}`)).body;
  expect([(await read(good.id))["status"], (await read(bad.id))["status"]]).toStrictEqual([
    "pending",
    "pending",
  ]);
  await service.advance(minute);
  expect(await read(good.id)).toMatchObject({
    id: good.id,
    wamid: good.wamid,
    status: "delivered",
    conversationId: good.conversationId,
  });
  expect(await read(bad.id)).toMatchObject({ status: "failed", errorCode: expect.anything() });
  await account.box("POST", `/messages/${good.id}/status`, { status: "read" });
  expect(await read(good.id)).toMatchObject({ status: "read" });
});

test("GET /messages/{id}: an id unknown in the account gives 404", async () => {
  const { account, template, post } = await ready();
  const { body } = await post({ to: service.phone(), template });
  expectError(await account.api("GET", "/messages/01900000-0000-7000-8000-000000000000"), 404);
  expectError(await (await service.account()).api("GET", `/messages/${body.id}`), 404);
  await service.advance(hour);
  expect((await account.api("GET", `/messages/${body.id}`)).status).toBe(200);
});
