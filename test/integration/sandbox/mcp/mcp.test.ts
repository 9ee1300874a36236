import { expect, test } from "vitest";
import { type Account, type Service, startService } from "../conformance/harness.ts";
import { callPlainly } from "../conformance/plain-http.ts";

type Result = { structuredContent: object; tools: { name: string; inputSchema: object }[] };

async function connect(service: Service, account: Account) {
  const { token } = (await account.box<{ token: string }>("POST", "/apps", { name: "claude" }))
    .body;
  const post = (body: unknown, bearer: string | null = token) =>
    callPlainly<{ result: Result }>("POST", `${service.root}/mcp`, {
      body,
      headers: bearer === null ? {} : { authorization: `Bearer ${bearer}` },
    });
  const rpc = (method: string, params?: object) => post({ jsonrpc: "2.0", id: 1, method, params });
  return {
    token,
    post,
    rpc,
    callTool: (name: string, args: object = {}) => rpc("tools/call", { name, arguments: args }),
  };
}

test("an app introduces itself, lists tools, and calls them within its account", async () => {
  const service = await startService();
  const account = await service.account();
  const { token, post, rpc, callTool } = await connect(service, account);
  expect((await rpc("initialize", { protocolVersion: "1999-01-01" })).body).toMatchObject({
    result: { protocolVersion: "2025-11-25" },
  });
  const notified = await post({ jsonrpc: "2.0", method: "notifications/initialized" });
  expect([notified.status, notified.text]).toEqual([202, ""]);
  expect((await rpc("ping")).body).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
  const { tools } = (await rpc("tools/list")).body.result;
  expect(tools.map(({ name }) => name)).toEqual(["list_templates", "send_message"]);
  expect(tools[1]?.inputSchema).toMatchObject({
    type: "object",
    properties: { to: { type: "string" } },
  });

  expect((await callTool("list_templates")).body.result.structuredContent).toEqual({
    templates: [],
  });
  const to = service.phone();
  await account.customerWrites(to);
  const sent = (await callTool("send_message", { to, text: "hola" })).body.result.structuredContent;
  const { id, wamid, conversationId } = (await account.messages()).at(-1) as Awaited<
    ReturnType<typeof account.message>
  >;
  expect(sent).toEqual({ id, wamid, status: "pending", conversationId });

  // What the service refuses is a result that says so; what is no tool or method is a JSON-RPC
  // error.
  expect(
    (await callTool("send_message", { to: service.phone(), text: "hola" })).body,
  ).toMatchObject({
    result: {
      isError: true,
      content: [{ type: "text", text: expect.stringContaining("Pasaron más de 24 horas") }],
    },
  });
  expect((await callTool("send_message")).body).toMatchObject({ result: { isError: true } });
  expect((await callTool("nonsense")).body).toMatchObject({ id: 1, error: { code: -32602 } });
  expect((await rpc("resources/list")).body).toMatchObject({ id: 1, error: { code: -32601 } });
  expect(await post("{")).toMatchObject({
    status: 400,
    body: { id: null, error: { code: -32700 } },
  });
  expect(await post([])).toMatchObject({ status: 400, body: { error: { code: -32600 } } });
  const stream = await callPlainly("GET", `${service.root}/mcp`, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect([stream.status, stream.headers["allow"]]).toEqual([405, "POST"]);

  // Only an app's token opens it.
  const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
  for (const bearer of ["nonsense", account.key, null]) {
    expect(await post(ping, bearer)).toMatchObject({
      status: 401,
      headers: { "www-authenticate": "Bearer" },
    });
  }
  // No call of a tool is an API call.
  expect((await account.usage()).apiCalls.used).toBe(0);
  await service.close();
});
