import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ServiceClient } from "../../../../src/service/client.ts";
import { localRefusal } from "../../../../src/service/errors.ts";
import { until } from "../../../harness/until.ts";
import { freePort } from "../../../setup/free-port.ts";
import { failureOf, openClient, openScripted, recordingAdmission } from "./open-client.ts";
import { bytesOf, jsonAnswer, startScripted } from "./scripted-service.ts";

// messaging-service-api.md, "Safe retries" and "Client guidance": endpoint × failure, counted on the wire.
const upgrade = '{"error":"Usaste todo","cause":{"type":"upgrade","reason":"limit","resource":"apiCalls"}}';

const again: Record<string, (client: ServiceClient) => Promise<unknown>> = {
  "GET /messages/{id}": (client) => client.getMessage("1"),
  "GET /me": (client) => client.me(),
};
const onlyOnce: Record<string, (client: ServiceClient) => Promise<unknown>> = {
  "POST /messages": (client) => client.sendMessage({ to: "+5491155550000", text: "hola" }),
  "POST /automations/{id}/runs": (client) => client.startRun("7", { phone: "+5491155550000" }),
};

interface Failure {
  readonly answer: Buffer | "reset" | "silence";
  /** Requests on the wire where calling twice does no more than calling once, and where it does. */
  readonly again: number;
  readonly onlyOnce: number;
}
const error = (status: number, headers = "") => bytesOf(`HTTP/1.1 ${status} Whatever${headers}`, '{"error":"No","cause":null}');
const failures: Record<string, Failure> = {
  "500": { answer: error(500), again: 4, onlyOnce: 1 },
  "502 of the provider": { answer: error(502), again: 4, onlyOnce: 1 },
  "502 of a proxy that speaks JSON": { answer: bytesOf("HTTP/1.1 502 Bad Gateway", '{"error":"Bad Gateway"}'), again: 4, onlyOnce: 1 },
  "502 of a proxy": { answer: bytesOf("HTTP/1.1 502 Bad Gateway", "<h1>"), again: 4, onlyOnce: 1 },
  "connection reset": { answer: "reset", again: 4, onlyOnce: 1 },
  timeout: { answer: "silence", again: 4, onlyOnce: 1 },
  "429 of a per-minute cap": { answer: error(429, "\nretry-after: 1\nx-ratelimit-limit: 60"), again: 4, onlyOnce: 4 },
  "429 of the monthly quota": { answer: jsonAnswer(429, upgrade), again: 1, onlyOnce: 1 },
  "429 of a blocked address": { answer: error(429), again: 1, onlyOnce: 1 },
  "400": { answer: error(400), again: 1, onlyOnce: 1 },
  "401": { answer: error(401), again: 1, onlyOnce: 1 },
  "402": { answer: jsonAnswer(402, upgrade), again: 1, onlyOnce: 1 },
  "404": { answer: error(404), again: 1, onlyOnce: 1 },
  "409": { answer: error(409), again: 1, onlyOnce: 1 },
  "503": { answer: error(503), again: 1, onlyOnce: 1 },
  malformed: { answer: bytesOf("HTTP/1.1 200 OK", "{"), again: 1, onlyOnce: 1 },
};

async function countRequests(answer: Failure["answer"], call: (client: ServiceClient) => Promise<unknown>): Promise<number> {
  let expire = () => {};
  const { service, client, clock } = await openScripted((_request, _number, socket) => {
    if (answer === "reset") socket.resetAndDestroy();
    else if (answer === "silence") expire();
    else return answer;
    return undefined;
  });
  expire = clock.expire;
  await failureOf(call(client));
  // A copy sent behind our back would be on its way by now.
  for (let n = 0; n < 5; n++) await turn();
  return service.seen.length;
}

for (const [name, failure] of Object.entries(failures)) {
  test.each(Object.keys(again))(`${name}: %s is called ${failure.again} times`, async (endpoint) => {
    expect(await countRequests(failure.answer, again[endpoint] as (typeof again)[string])).toBe(failure.again);
  });
  test.each(Object.keys(onlyOnce))(`${name}: %s is called ${failure.onlyOnce} times`, async (endpoint) => {
    expect(await countRequests(failure.answer, onlyOnce[endpoint] as (typeof onlyOnce)[string])).toBe(failure.onlyOnce);
  });
}

test("retries every call on a refused connection", async () => {
  const baseUrl = `http://127.0.0.1:${await freePort()}`;
  for (const call of [...Object.values(again), ...Object.values(onlyOnce)]) {
    const { client, admission } = openClient(baseUrl);
    await failureOf(call(client));
    expect(admission.entered).toHaveLength(4);
  }
});

describe("between attempts", () => {
  const receipt = jsonAnswer(201, '{"id":"1","wamid":"wamid.A","status":"pending","conversationId":"2"}');

  test("a send succeeds after caps and temporary rejections with the same bytes, and honors Retry-After", async () => {
    const cap = error(429, "\nretry-after: 20\nx-ratelimit-limit: 60");
    const answers = [cap, cap, error(502), receipt];
    const { service, client, clock, admission } = await openScripted((_request, number) => answers[number - 1], {
      retry: { isTemporary: () => true },
    });
    expect(await client.sendMessage({ to: "+5491155550000", text: "¿Qué tal?" })).toMatchObject({ id: "1" });
    // Retry-After, then twice that, each with half of firstMs (random is 0.5) on top; then 4 s less a quarter.
    expect(clock.waits).toEqual([20_500, 40_500, 3000]);
    expect(new Set(service.seen.map(({ body }) => body)).size).toBe(1);
    expect(admission.settled.flat().map(({ type }) => type)).toEqual(["rate-limited", "rate-limited", "answered", "answered"]);
    expect(admission.entered.map(({ cap, priority }) => [cap, priority])).toEqual(Array(4).fill(["messages", "send"]));
  });

  test("a 429 with Retry-After is a cap for any body", async () => {
    const bodies = ["<h1>Too Many Requests</h1>", "", '{"error":{"message":"Bajá un cambio"}}', '{"cause":"x"}'];
    const { client, clock, admission } = await openScripted((_request, number) => {
      const body = number % 2 === 1 ? bodies[(number - 1) / 2] : undefined;
      return body === undefined ? receipt : bytesOf("HTTP/1.1 429 Too Many\nRetry-After: 1", body);
    });
    for (const _ of bodies) await client.sendMessage({ to: "+5491155550000", text: "x" });
    expect(clock.waits).toEqual(bodies.map(() => 1500));
    const cap = { type: "rate-limited", cap: null, retryAfterMs: 1000, limit: null };
    expect(admission.settled.flat()).toEqual(bodies.flatMap(() => [cap, { type: "answered" }]));
  });

  test("a call without admission is neither sent nor retried, and the error names it", async () => {
    const service = await startScripted(() => receipt);
    const refusing = { ...recordingAdmission(), enter: () => Promise.reject(localRefusal({ kind: "quota", cause: null, until: 5 })) };
    const { client } = openClient(service.baseUrl, { admission: refusing });
    const refusal = await failureOf(client.startRun("7"));
    expect(refusal).toMatchObject({
      kind: "quota",
      local: true,
      outcome: "not-done",
      status: null,
      endpoint: "POST /automations/{id}/runs",
    });
    expect(refusal.message).toBe("POST /automations/{id}/runs: not called, the monthly quota is used up");
    expect(service.accepted).toBe(0);
  });

  test("holds no permit while it waits", async () => {
    const { service, client, clock, admission } = await openScripted((_request, number) =>
      number === 1 ? error(500) : jsonAnswer(200, "{}"),
    );
    clock.holdWaits();
    const stop = new AbortController();
    const calling = client.me({ signal: stop.signal });
    await until("the wait", () => clock.waits.length === 1);
    expect(admission.settled).toEqual([[{ type: "answered" }]]);
    stop.abort("enough");
    expect(await failureOf(calling)).toMatchObject({ kind: "unexpected" });
    expect(service.seen).toHaveLength(1);
  });
});

describe("sends POST /messages once, also on a reused connection:", () => {
  const receipt = jsonAnswer(201, '{"id":"1","wamid":"wamid.A","status":"pending","conversationId":"2"}');
  const send = { to: "+5491155550000", text: "hola" };

  test.each(["end", "resetAndDestroy"] as const)("the service closes it when the second send arrives (%s)", async (ending) => {
    const { service, client } = await openScripted(
      (_request, number, socket) => {
        if (number === 2) socket[ending]();
        return number === 2 ? undefined : receipt;
      },
      { connections: 1 },
    );
    await client.sendMessage(send);
    expect(await failureOf(client.sendMessage(send))).toMatchObject({ kind: "network", outcome: "unknown" });
    expect(service.accepted).toBe(1);
    // The pipe is alive, and nothing was left over in it.
    await client.sendMessage(send);
    expect(service.seen).toHaveLength(3);
  });

  test("sends on a new connection when the service closed the idle one", async () => {
    const { service, client } = await openScripted(
      (_request, _number, socket) => {
        socket.end(receipt);
        return undefined;
      },
      { connections: 1 },
    );
    for (let n = 1; n <= 3; n++) {
      await client.sendMessage(send);
      await until("the connection to be closed", () => service.open.size === 0);
      expect(service.seen).toHaveLength(n);
    }
  });
});
