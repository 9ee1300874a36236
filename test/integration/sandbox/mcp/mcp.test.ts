import { expect, test } from "vitest";
import { refused } from "../../../../src/sandbox/api/fault.ts";
import { plans } from "../../../../src/sandbox/world/records.ts";
import { phone } from "../../../unit/sandbox/automations/scene.ts";
import { startService } from "../automations/service.ts";

const token = "mcp_0123456789";

async function startMcp(options: Parameters<typeof startService>[0] = {}) {
  const service = await startService(options);
  const { world, clock, parts } = service.scene;
  const connect = (name: string, appToken: string) =>
    world.apps.put({ id: parts.ids(), account: "main", createdAt: clock.now(), name, token: appToken });
  connect("claude", token);
  const rpc = (method: string, params?: object, id: number | undefined = 1, bearer = token) =>
    service.post("/mcp", { jsonrpc: "2.0", ...(id === undefined ? {} : { id }), method, params }, bearer);
  return { ...service, connect, rpc, callTool: (name: string, args: object = {}) => rpc("tools/call", { name, arguments: args }) };
}

test("an app introduces itself, then lists the tools and pings", async () => {
  await using mcp = await startMcp();
  const hello = await mcp.rpc(
    "initialize",
    { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } },
    7,
  );
  expect(hello).toMatchObject({
    status: 200,
    body: { jsonrpc: "2.0", id: 7, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} } } },
  });
  expect((await mcp.rpc("initialize", { protocolVersion: "1999-01-01" })).body).toMatchObject({
    result: { protocolVersion: "2025-11-25" },
  });
  const heard = await mcp.post("/mcp", { jsonrpc: "2.0", method: "notifications/initialized" }, token);
  expect([heard.status, heard.body]).toEqual([202, null]);
  const { tools } = ((await mcp.rpc("tools/list")).body as { result: { tools: { name: string; inputSchema: object }[] } }).result;
  expect(tools.map(({ name }) => name)).toEqual(["list_templates", "send_message"]);
  expect(tools[1]?.inputSchema).toMatchObject({ type: "object", properties: { to: { type: "string" } } });
  expect((await mcp.rpc("ping")).body).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
});

test("only an app's token opens it; an API key does not", async () => {
  await using mcp = await startMcp();
  for (const bearer of ["nonsense", mcp.key]) {
    const answer = await mcp.rpc("ping", undefined, 1, bearer);
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
  }
  expect((await mcp.post("/mcp", { jsonrpc: "2.0", id: 1, method: "ping" })).status).toBe(401);
  expect((await mcp.rpc("ping")).status).toBe(200);
});

test("tools read and send within the app's account", async () => {
  await using mcp = await startMcp();
  const { scene } = mcp;
  const structured = (answer: { body: unknown }) => (answer.body as { result: { structuredContent: object } }).result.structuredContent;
  const sent = structured(await mcp.callTool("send_message", { to: phone, text: "hola" }));
  expect(sent).toEqual({
    id: scene.lastMessage().id,
    wamid: scene.lastMessage().wamid,
    status: "pending",
    conversationId: scene.conversation().id,
  });
  expect(structured(await mcp.callTool("list_templates"))).toEqual({ templates: [] });
});

test("what the service refuses is a result that says so; what is no tool or method is a JSON-RPC error", async () => {
  await using mcp = await startMcp();
  mcp.scene.ahead.sendThrows = refused(409, "Pasaron más de 24 horas.");
  expect((await mcp.callTool("send_message", { to: phone, text: "hola" })).body).toMatchObject({
    result: { isError: true, content: [{ type: "text", text: expect.stringContaining("Pasaron más de 24 horas.") }] },
  });
  expect((await mcp.callTool("send_message", {})).body).toMatchObject({ result: { isError: true } });
  expect((await mcp.callTool("nonsense")).body).toMatchObject({ id: 1, error: { code: -32602 } });
  expect((await mcp.rpc("resources/list")).body).toMatchObject({ id: 1, error: { code: -32601 } });
  expect(await mcp.post("/mcp", "{", token)).toMatchObject({ status: 400, body: { id: null, error: { code: -32700 } } });
  expect(await mcp.post("/mcp", [], token)).toMatchObject({ status: 400, body: { error: { code: -32600 } } });
  const stream = await fetch(`${mcp.url}/mcp`, { headers: { authorization: `Bearer ${token}` } });
  expect([stream.status, stream.headers.get("allow")]).toEqual([405, "POST"]);
  expect(mcp.failures).toEqual([]);
});

test("unlimited has no cap, and no call of a tool is an API call", async () => {
  await using mcp = await startMcp({ isUnlimited: true });
  for (let call = 0; call <= plans.escala.toolCalls; call += 1) expect((await mcp.callTool("list_templates")).status).toBe(200);
  expect(mcp.limits.usage(mcp.scene.account).apiCalls).toBe(0);
});
