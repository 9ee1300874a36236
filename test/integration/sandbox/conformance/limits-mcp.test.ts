// messaging-service-api.md, "Limits": Automations and MCP, and what of MCP "Authentication" and
// "Responses at the limit" say.
import { expect, test } from "vitest";
import { type Account, minute, second, serviceOfFile } from "./harness.ts";
import { callPlainly } from "./plain-http.ts";
import { startReceiver } from "./receiver.ts";
import { expectSpanish, expectUpgrade } from "./shapes.ts";

const service = await serviceOfFile();

const plans = ["trial", "growth", "escala", "enterprise"] as const;
type Plan = (typeof plans)[number];

async function onPlan(plan: Plan): Promise<Account> {
  const account = await service.account();
  await service.box("PATCH", `/accounts/${account.name}`, { plan });
  return account;
}

interface RpcAnswer {
  readonly jsonrpc: string;
  readonly id: number;
  readonly result?: object;
  readonly error?: { readonly code: number; readonly message: string };
}

let ids = 0;
/** One JSON-RPC message of an AI app; where the MCP server is, is the sandbox's choice. */
function rpc(token: string, method: string, params: object = {}) {
  ids += 1;
  const headers = {
    authorization: `Bearer ${token}`,
    accept: "application/json, text/event-stream",
  };
  return callPlainly<RpcAnswer>("POST", `${service.root}/mcp`, {
    headers,
    body: { jsonrpc: "2.0", id: ids, method, params },
  });
}
const toolCall = (token: string) =>
  rpc(token, "tools/call", { name: "list_templates", arguments: {} });

async function app(account: Account, name = "Asistente"): Promise<string> {
  const answer = await account.box<{ token: string }>("POST", "/apps", { name });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.token;
}

async function callsAMinute(plan: Plan): Promise<number> {
  const token = await app(await onPlan(plan));
  for (let admitted = 0; admitted <= 130; admitted++)
    if ((await toolCall(token)).status === 429) return admitted;
  throw new Error("never refused");
}

/**
 * Of automations started by the customer, which every plan has: how many steps or requests of three
 * are done with two left.
 */
async function done(plan: Plan, quota: "automationSteps" | "automationRequests", used: number) {
  await using receiver = await startReceiver();
  const account = await onPlan(plan);
  const url = receiver.url();
  await account.automation({
    trigger: "customer-message",
    steps: [{ type: "request", url, body: {} }],
  });
  await account.box("PUT", "/usage", { [quota]: used });
  for (let count = 1; count <= 3; count++) {
    await account.customerWrites(service.phone());
    await service.advance(second);
    // Two must arrive; a third would have by now, as it would go out at once.
    if (count <= 2) await receiver.arrivals(url, count);
  }
  await service.advance(minute);
  return { posts: receiver.at(url).length, ...(await account.usage())[quota] };
}

test("Automations and MCP: automation steps per month: 2,000 on the free trial", async () => {
  expect(await done("trial", "automationSteps", 1_998)).toStrictEqual({
    posts: 2,
    used: 2_000,
    limit: 2_000,
  });
});

test("Automations and MCP: automation steps per month: 25,000 on growth", async () => {
  expect(await done("growth", "automationSteps", 24_998)).toStrictEqual({
    posts: 2,
    used: 25_000,
    limit: 25_000,
  });
});

test("Automations and MCP: automation steps per month: 200,000 on escala", async () => {
  expect(await done("escala", "automationSteps", 199_998)).toStrictEqual({
    posts: 2,
    used: 200_000,
    limit: 200_000,
  });
});

test("Automations and MCP: automation HTTP requests per month: 200 on the free trial", async () => {
  expect(await done("trial", "automationRequests", 198)).toStrictEqual({
    posts: 2,
    used: 200,
    limit: 200,
  });
});

test("Automations and MCP: automation HTTP requests per month: 5,000 on growth", async () => {
  expect(await done("growth", "automationRequests", 4_998)).toStrictEqual({
    posts: 2,
    used: 5_000,
    limit: 5_000,
  });
});

test("Automations and MCP: automation HTTP requests per month: 50,000 on escala", async () => {
  expect(await done("escala", "automationRequests", 49_998)).toStrictEqual({
    posts: 2,
    used: 50_000,
    limit: 50_000,
  });
});

test("Automations and MCP: automation steps and HTTP requests are unlimited on enterprise", async () => {
  await using receiver = await startReceiver();
  const account = await onPlan("enterprise");
  const url = receiver.url();
  await account.automation({
    trigger: "customer-message",
    steps: [{ type: "request", url, body: {} }],
  });
  await account.box("PUT", "/usage", { automationSteps: 9_000_000, automationRequests: 9_000_000 });
  await account.customerWrites(service.phone());
  await service.advance(second);
  await receiver.arrivals(url, 1);
  expect(await account.usage()).toMatchObject({
    automationSteps: { used: 9_000_001, limit: null },
    automationRequests: { used: 9_000_001, limit: null },
  });
});

test("Automations and MCP: connected AI apps: 3 on the free trial, 10 on growth, 25 on escala, unlimited on enterprise", async () => {
  for (const [plan, limit] of [
    ["trial", 3],
    ["growth", 10],
    ["escala", 25],
  ] as const) {
    const account = await onPlan(plan);
    for (let n = 0; n < limit; n++) await app(account, `App ${n}`);
    expectUpgrade(await account.box("POST", "/apps", { name: "Una más" }), 402, {
      reason: "limit",
      plan,
      limit,
      used: limit,
    });
  }
  const account = await onPlan("enterprise");
  for (let n = 0; n < 60; n++) await app(account, `App ${n}`);
});

test("Automations and MCP: MCP tool calls per minute: 20 on the free trial", async () => {
  expect(await callsAMinute("trial")).toBe(20);
});

test("Automations and MCP: MCP tool calls per minute: 30 on growth", async () => {
  expect(await callsAMinute("growth")).toBe(30);
});

test("Automations and MCP: MCP tool calls per minute: 60 on escala", async () => {
  expect(await callsAMinute("escala")).toBe(60);
});

test("Automations and MCP: MCP tool calls per minute: 120 on enterprise", async () => {
  expect(await callsAMinute("enterprise")).toBe(120);
});

test("Automations and MCP: tool calls are counted per app, and nothing but tool calls", async () => {
  const account = await onPlan("trial");
  const [one, other] = [await app(account), await app(account)];
  for (let count = 0; count < 25; count++) expect((await rpc(one, "tools/list")).status).toBe(200);
  for (let count = 0; count < 20; count++) expect((await toolCall(one)).status).toBe(200);
  expect((await toolCall(one)).status).toBe(429);
  expect((await toolCall(other)).status).toBe(200);
});

test("Authentication: AI apps connect through an MCP server", async () => {
  const account = await service.account();
  await account.template({ name: "Aviso de entrega" });
  const token = await app(account);
  const info = {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "prueba", version: "1" },
  };
  const hello = await rpc(token, "initialize", info);
  expect(hello.status, hello.text).toBe(200);
  expect(hello.body).toMatchObject({
    jsonrpc: "2.0",
    result: { protocolVersion: "2025-06-18", capabilities: { tools: {} } },
  });
  const tools = await rpc(token, "tools/list");
  expect(tools.text).toContain("list_templates");
  const called = await toolCall(token);
  expect(called.body).toMatchObject({ jsonrpc: "2.0", id: ids });
  expect(called.text).toContain("Aviso de entrega");
  expect((await toolCall(`${token}x`)).status).toBe(401);
});

test("Responses at the limit: MCP answers 429 with a JSON-RPC error of code -32000 and Retry-After: 60", async () => {
  const token = await app(await onPlan("trial"));
  for (let count = 0; count < 20; count++) expect((await toolCall(token)).status).toBe(200);
  await service.advance(45 * second);
  const refused = await toolCall(token);
  expect(refused.status).toBe(429);
  expect(refused.headers["retry-after"]).toBe("60");
  expect(refused.body).toStrictEqual({
    jsonrpc: "2.0",
    id: ids,
    error: { code: -32000, message: expect.any(String) },
  });
  expectSpanish(refused.body.error?.message);
  await service.advance(60 * second);
  expect((await toolCall(token)).status).toBe(200);
});
