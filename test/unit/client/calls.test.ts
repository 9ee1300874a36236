import { expect, test } from "vitest";
import { RelayClient } from "../../../src/client/relay-client.ts";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";

function recorded() {
  const requests: string[] = [];
  const fetch = async (url: string | URL | Request, { method, body }: RequestInit = {}) => {
    requests.push([method, String(url).replace("http://relay.example", ""), body].filter(Boolean).join(" "));
    return new Response("{}");
  };
  return { client: new RelayClient({ url: "http://relay.example", token: "t", fetch }), requests };
}

test("the client has a method for every endpoint that is one request", () => {
  const { client } = recorded();
  const special = ["sendMessage", "startRun", "trackMessages", "listen"];
  for (const { name } of allEndpoints) if (!special.includes(name)) expect(client).toHaveProperty(name, expect.any(Function));
});

test("a method puts parameters into the path, the query or the body", async () => {
  const { client, requests } = recorded();
  await client.getEvent({ id: "a/b", account: "main", reveal: true });
  await client.getEvent({ id: 7 });
  await client.listEvents({ from: new Date(0), status: undefined, limit: 5 });
  await client.retryDelivery({ id: "d 1" });
  await client.moveCursor({ name: "ana", seq: 3 });
  await client.startSession({ token: "t" });
  await client.getReadiness();
  expect(requests).toEqual([
    "GET /v1/events/a%2Fb?account=main&reveal=true",
    "GET /v1/events/7",
    "GET /v1/events?from=1970-01-01T00%3A00%3A00.000Z&limit=5",
    "POST /v1/deliveries/d%201/retry",
    'POST /v1/listen/cursors/ana {"seq":3}',
    'POST /v1/session {"token":"t"}',
    "GET /readyz",
  ]);
});

test("a missing parameter and an unknown filter do not compile", async () => {
  const { client } = recorded();
  // @ts-expect-error
  await client.getEvent();
  // @ts-expect-error
  await client.getSeries({});
  // @ts-expect-error
  await client.listEvents({ colour: "red" });
  // @ts-expect-error
  await client.listDeliveries({ state: "lost" });
  // @ts-expect-error
  await client.getStats({ route: "crm" });
  // @ts-expect-error
  client.live({ reference: "order-1" });
});
