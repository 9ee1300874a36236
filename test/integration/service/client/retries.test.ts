import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ServiceClient } from "../../../../src/service/client.ts";
import { localRefusal } from "../../../../src/service/errors.ts";
import { until } from "../../../harness/until.ts";
import { freePort } from "../../../setup/free-port.ts";
import { failureOf, openClient, openScripted, recordingAdmission } from "./open-client.ts";
import { bytesOf, jsonAnswer, startScripted } from "./scripted-service.ts";

// messaging-service-api.md, "Safe retries" and "Client guidance": endpoint × failure, counted on
// the wire.
const upgrade =
  '{"error":"Usaste todo","cause":{"type":"upgrade","reason":"limit","resource":"apiCalls"}}';

const calls: Record<string, (client: ServiceClient) => Promise<unknown>> = {
  "GET /messages/{id}": (client) => client.getMessage("1"),
  "GET /me": (client) => client.me(),
  "POST /messages": (client) => client.sendMessage({ to: "+5491155550000", text: "hola" }),
  "POST /automations/{id}/runs": (client) => client.startRun("7", { phone: "+5491155550000" }),
};

type Failure = Buffer | "reset" | "silence";
const error = (status: number, headers = "") =>
  bytesOf(`HTTP/1.1 ${status} Whatever${headers}`, '{"error":"No","cause":null}');
const cap = "429 of a per-minute cap";
const failures: Record<string, Failure> = {
  "500": error(500),
  "502 of the provider": error(502),
  "502 of a proxy that speaks JSON": bytesOf("HTTP/1.1 502 Bad Gateway", '{"error":"Bad Gateway"}'),
  "502 of a proxy": bytesOf("HTTP/1.1 502 Bad Gateway", "<h1>"),
  "connection reset": "reset",
  timeout: "silence",
  [cap]: error(429, "\nretry-after: 1\nx-ratelimit-limit: 60"),
  "429 of the monthly quota": jsonAnswer(429, upgrade),
  "429 of a blocked address": error(429),
  "400": error(400),
  "401": error(401),
  "402": jsonAnswer(402, upgrade),
  "404": error(404),
  "409": error(409),
  "503": error(503),
  malformed: bytesOf("HTTP/1.1 200 OK", "{"),
};

async function countRequests(
  answer: Failure,
  call: (client: ServiceClient) => Promise<unknown>,
): Promise<number> {
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
  const times = name === cap ? 4 : 1;
  test.each(Object.keys(calls))(`${name}: %s is called ${times} times`, async (endpoint) => {
    expect(await countRequests(failure, calls[endpoint] as (typeof calls)[string])).toBe(times);
  });
}

test("retries every call on a refused connection", async () => {
  const baseUrl = `http://127.0.0.1:${await freePort()}`;
  for (const call of Object.values(calls)) {
    const { client, admission } = openClient(baseUrl);
    await failureOf(call(client));
    expect(admission.entered).toHaveLength(4);
  }
});

describe("between attempts", () => {
  const receipt = jsonAnswer(
    201,
    '{"id":"1","wamid":"wamid.A","status":"pending","conversationId":"2"}',
  );

  test("a send succeeds after caps and temporary rejections with the same bytes", async () => {
    const limited = error(429, "\nretry-after: 20\nx-ratelimit-limit: 60");
    const answers = [limited, limited, error(502), receipt];
    const { service, client, clock, admission } = await openScripted(
      (_request, number) => answers[number - 1],
      {
        retry: { isTemporary: () => true },
      },
    );
    expect(await client.sendMessage({ to: "+5491155550000", text: "¿Qué tal?" })).toMatchObject({
      id: "1",
    });
    // 4 s less a quarter (random is 0.5). For a cap, the admission waits.
    expect(clock.waits).toEqual([3000]);
    expect(new Set(service.seen.map(({ body }) => body)).size).toBe(1);
    expect(admission.settled.flat().map(({ type }) => type)).toEqual([
      "rate-limited",
      "rate-limited",
      "answered",
      "answered",
    ]);
    expect(admission.entered.map(({ operation }) => operation)).toEqual(Array(4).fill("messages"));
  });

  test("a 429 with Retry-After is a cap for any body", async () => {
    const bodies = [
      "<h1>Too Many Requests</h1>",
      "",
      '{"error":{"message":"Bajá un cambio"}}',
      '{"cause":"x"}',
    ];
    const { client, clock, admission } = await openScripted((_request, number) => {
      const body = number % 2 === 1 ? bodies[(number - 1) / 2] : undefined;
      return body === undefined ? receipt : bytesOf("HTTP/1.1 429 Too Many\nRetry-After: 1", body);
    });
    for (const _ of bodies) await client.sendMessage({ to: "+5491155550000", text: "x" });
    expect(clock.waits).toEqual([]);
    const limited = { type: "rate-limited", cap: null, retryAfterMs: 1000, limit: null };
    expect(admission.settled.flat()).toEqual(bodies.flatMap(() => [limited, { type: "answered" }]));
  });

  test("a call without admission is neither sent nor retried, and the error names it", async () => {
    const service = await startScripted(() => receipt);
    const refusing = {
      ...recordingAdmission(),
      enter: () => Promise.reject(localRefusal({ kind: "quota", cause: null, until: 5 })),
    };
    const { client } = openClient(service.baseUrl, { admission: refusing });
    const refusal = await failureOf(client.startRun("7"));
    expect(refusal).toMatchObject({
      kind: "quota",
      local: true,
      outcome: "not-done",
      status: null,
      endpoint: "POST /automations/{id}/runs",
    });
    expect(refusal.message).toBe(
      "POST /automations/{id}/runs: not called, the monthly quota is used up",
    );
    expect(service.accepted).toBe(0);
  });

  test("holds no permit while it waits", async () => {
    const { service, client, clock, admission } = await openScripted(() => error(502), {
      retry: { isTemporary: () => true },
    });
    clock.holdWaits();
    const stop = new AbortController();
    const calling = client.me({ signal: stop.signal });
    await until("the wait", () => clock.waits.length === 1);
    expect(admission.settled).toMatchObject([[{ type: "answered" }]]);
    stop.abort("enough");
    expect(await failureOf(calling)).toMatchObject({ kind: "rejected" });
    expect(service.seen).toHaveLength(1);
  });
});

describe("sends POST /messages once, also on a reused connection:", () => {
  const receipt = jsonAnswer(
    201,
    '{"id":"1","wamid":"wamid.A","status":"pending","conversationId":"2"}',
  );
  const send = { to: "+5491155550000", text: "hola" };

  test.each(["end", "resetAndDestroy"] as const)(
    "the service closes it when the second send arrives (%s)",
    async (ending) => {
      const { service, client } = await openScripted(
        (_request, number, socket) => {
          if (number === 2) socket[ending]();
          return number === 2 ? undefined : receipt;
        },
        { connections: 1 },
      );
      await client.sendMessage(send);
      expect(await failureOf(client.sendMessage(send))).toMatchObject({
        kind: "network",
        outcome: "unknown",
      });
      expect(service.accepted).toBe(1);
      // The pipe is alive, and nothing was left over in it.
      await client.sendMessage(send);
      expect(service.seen).toHaveLength(3);
    },
  );

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
