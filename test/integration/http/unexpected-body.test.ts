import { request } from "node:http";
import { expect, test } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, webhookSecret } from "../../harness/relay-settings.ts";
import { documentOf, operationsOf } from "./openapi-document.ts";

interface Sent {
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** With `node:http`, because `fetch` sends no body with GET. */
function send(
  url: string,
  method: string,
  { body = "", headers = {} }: Sent,
): Promise<{ status: number; code: unknown }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      url,
      { method, headers: { authorization: `Bearer ${relayToken}`, ...headers } },
      async (answer) => {
        let text = "";
        for await (const chunk of answer.setEncoding("utf8")) text += chunk;
        resolve({
          status: answer.statusCode ?? 0,
          code: text === "" ? null : (JSON.parse(text) as { code?: unknown }).code,
        });
      },
    );
    sent.on("error", reject);
    sent.end(body === "" ? undefined : body);
  });
}

const filled = (endpoint: string) =>
  endpoint.replace(/\{\w+\}/g, "some").split(" ") as [method: string, path: string];
const json = { "content-type": "application/json" };
const length = (body: string) => ({ "content-length": String(body.length) });

test("refuses a body at every endpoint without one, whatever its type and framing", async () => {
  const relay = await startRelayHere();
  const operations = [...operationsOf(await documentOf(relay))].filter(
    ([, { requestBody }]) => requestBody === undefined,
  );
  const endpoints = [
    ...operations.map(([endpoint]) => endpoint),
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
  ];
  expect(endpoints.length).toBeGreaterThan(15);
  const refused = { status: 400, code: "unexpected_body" };
  for (const endpoint of endpoints) {
    const [method, path] = filled(endpoint);
    const body = '{"limit":5}';
    for (const headers of [
      { ...json, ...length(body) },
      { "content-type": "text/plain", ...length(body) },
      length(body),
    ])
      expect([endpoint, headers, await send(relay.url + path, method, { body, headers })]).toEqual([
        endpoint,
        headers,
        refused,
      ]);
    const chunked = { ...json, "transfer-encoding": "chunked" };
    expect([endpoint, await send(relay.url + path, method, { body, headers: chunked })]).toEqual([
      endpoint,
      refused,
    ]);
  }
});

test("accepts an empty body where the endpoint has none, and a body where it has one", async () => {
  const relay = await startRelayHere();
  const retry = `${relay.url}/v1/deliveries/none/retry`;
  for (const headers of [
    { "content-length": "0" },
    { ...json, "content-length": "0" },
    { ...json, "transfer-encoding": "chunked" },
  ])
    expect(await send(retry, "POST", { headers })).toEqual({ status: 404, code: "not_found" });
  const body = '{"dryRun":true}';
  expect(
    (await send(`${relay.url}/v1/replay`, "POST", { body, headers: { ...json, ...length(body) } }))
      .status,
  ).toBe(200);
});

test("checks the token first", async () => {
  const relay = await startRelayHere();
  const headers = { authorization: `Bearer ${webhookSecret}`, ...length("{}") };
  expect(await send(`${relay.url}/v1/stats`, "GET", { body: "{}", headers })).toEqual({
    status: 401,
    code: "unauthorized",
  });
});
