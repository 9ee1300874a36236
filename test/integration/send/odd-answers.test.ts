import { expect, test } from "vitest";
import { bytesOf, jsonAnswer, startScripted } from "../service/client/scripted-service.ts";
import { hello, openRelay } from "./open-relay.ts";

const json = "content-type: application/json";
const openWith = async (...answers: Buffer[]) => {
  const service = await startScripted((_request, number) => answers[number - 1]);
  return { service, relay: await openRelay({ account: { baseUrl: service.baseUrl } }) };
};

test.each([
  ['{"id":"1","wamid":"wamid.A","status":null,"conversationId":null}', { id: "1", status: "pending", conversationId: null }],
  ['{"id":7,"wamid":"wamid.A"}', { id: "7", status: "pending", conversationId: null }],
  ['{"wamid":"wamid.A","status":"sent","conversationId":"c"}', { id: null, status: "sent", conversationId: "c" }],
])("201 %s: is sent, registered, and repeated under its key", async (body, facts) => {
  const { service, relay } = await openWith(jsonAnswer(201, body));
  const first = await relay.send(hello, "k");
  expect(first).toMatchObject({ status: 201, body: { wamid: "wamid.A", ...facts, stored: true } });
  expect(await relay.get("/v1/messages/wamid.A")).toMatchObject({
    status: 200,
    body: { wamid: "wamid.A", ...facts, registeredAt: expect.any(String) },
  });
  expect((await relay.send(hello, "k")).body).toEqual(first.body);
  expect(service.seen).toHaveLength(1);
});

test("sends after the wait of a 429 in HTML with Retry-After", async () => {
  const { service, relay } = await openWith(
    bytesOf("HTTP/1.1 429 Too Many Requests\nRetry-After: 1", "<h1>429</h1>"),
    jsonAnswer(201, '{"id":"1","wamid":"wamid.A"}'),
  );
  expect(await relay.send(hello, "k")).toMatchObject({ status: 201, body: { wamid: "wamid.A" } });
  expect(service.seen).toHaveLength(2);
});

test("reports a refused key for a 401 without a body", async () => {
  const { service, relay } = await openWith(bytesOf("HTTP/1.1 401 Unauthorized"));
  expect(await relay.send(hello, "k")).toMatchObject({ status: 502, body: { code: "service_key_refused" } });
  expect(await relay.send(hello, "k")).toMatchObject({ status: 502, body: { code: "service_key_refused" } });
  expect(service.seen).toHaveLength(1);
});

test.each([
  [402, '{"error":{"message":"Tu plan no lo permite"}}', "plan"],
  [402, '{"error":"Tu plan no lo permite","cause":{"type":"novel"}}', "plan"],
  [409, '{"message":"Tu plan no lo permite"}', "conflict"],
  [403, '{"error":"Tu plan no lo permite"}', "undocumented"],
])("%d %s: is rejected with the service's own text", async (status, body, kind) => {
  const { relay } = await openWith(bytesOf(`HTTP/1.1 ${status} No\n${json}`, body));
  expect(await relay.send(hello, "k")).toMatchObject({
    status: 422,
    body: { code: "service_refused", error: "Tu plan no lo permite", details: { status, kind } },
  });
});

test("answers a used-up quota with the time of its renewal and without Retry-After", async () => {
  const { relay } = await openWith(jsonAnswer(429, '{"error":"Usaste todo","cause":{"type":"upgrade","resource":"apiCalls"}}'));
  const refused = await relay.send(hello, "k");
  expect(refused).toMatchObject({ status: 429, body: { code: "service_quota_used_up", details: { until: expect.any(String) } } });
  expect(refused.headers.get("retry-after")).toBeNull();
});

test("passes the phone of a run unchanged, and rejects a `to` without + without a call", async () => {
  const { service, relay } = await openWith(jsonAnswer(201, '{"runId":"r"}'));
  expect(await relay.run("a", { reference: "order-1", phone: "11 5555-0100" })).toMatchObject({ status: 201, body: { runId: "r" } });
  expect(JSON.parse(service.seen[0]?.body ?? "")).toEqual({ phone: "11 5555-0100" });
  expect(await relay.send({ ...hello, to: " +5491155550100" }, "k")).toMatchObject({ status: 400, body: { code: "bad_request" } });
  expect(service.seen).toHaveLength(1);
});
