import { expect, onTestFinished, test, vi } from "vitest";
import { RelayClient, RelayClientError } from "../../../src/client/relay-client.ts";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";

function recorded() {
  const requests: string[] = [];
  const fetch = async (url: string | URL | Request, { method, body }: RequestInit = {}) => {
    requests.push(
      [method, String(url).replace("http://relay.example", ""), body].filter(Boolean).join(" "),
    );
    return new Response("{}");
  };
  return { client: new RelayClient({ url: "http://relay.example", token: "t", fetch }), requests };
}

test("the client has a method for every endpoint that is one request", () => {
  const { client } = recorded();
  const special = ["sendMessage", "startRun", "trackMessages", "listen"];
  for (const { name } of allEndpoints)
    if (!special.includes(name)) expect(client).toHaveProperty(name, expect.any(Function));
  expect(client).not.toHaveProperty("listen");
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
  // @ts-expect-error
  await client.send({ to: "+5491155550100" });
  // @ts-expect-error
  await client.send({ to: "+5491155550100", text: "Hola", template: { id: "t" } });
});

test("a limit below zero, or none at all, goes to the relay, which refuses it", async () => {
  const requests: string[] = [];
  const fetch = async (url: string | URL | Request) => {
    requests.push(String(url));
    return Response.json({ error: "limit", code: "bad_request" }, { status: 400 });
  };
  const client = new RelayClient({ url: "http://relay.example", token: "t", fetch });
  for (const limit of [-1, Number.NaN])
    await expect(client.events({ limit }).next()).rejects.toMatchObject({ code: "bad_request" });
  expect(await client.events({ limit: 0 }).next()).toMatchObject({ done: true });
  expect(requests.map((url) => url.split("?")[1])).toEqual(["limit=-1", "limit=NaN"]);
});

test("an audit and a reconciliation that were aborted before make no request", async () => {
  const { client, requests } = recorded();
  const signal = AbortSignal.abort(new Error("enough"));
  await expect(client.audit({}, { signal })).rejects.toThrow("enough");
  expect(await client.reconcile({}, { signal })).toEqual([]);
  expect(requests).toEqual([]);
});

test("a redirect that a browser hides is no answer", async () => {
  const fetch = async () => ({
    ok: false,
    status: 0,
    headers: new Headers(),
    text: async () => "",
  });
  const client = new RelayClient({ url: "http://relay.example", fetch: fetch as never });
  await expect(client.getStats()).rejects.toMatchObject({ status: 0, code: "no_answer" });
});

/** Answers in their order, the last one for ever; counts the requests. */
function answering(...answers: (() => Response)[]) {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const keys: (string | null)[] = [];
  const fetch = async (_url: string | URL | Request, { headers }: RequestInit = {}) => {
    keys.push(new Headers(headers).get("idempotency-key"));
    return (answers[Math.min(keys.length, answers.length) - 1] as () => Response)();
  };
  return { keys, fetch, url: "http://relay.example", token: "t" };
}

const inFlight = () =>
  Response.json(
    { error: "a call under this key is in flight; retry", code: "conflict" },
    { status: 409, headers: { "retry-after": "1" } },
  );

test("send and startRun repeat while another request with the key is in flight", async () => {
  const { keys, ...options } = answering(inFlight, inFlight, () => Response.json({ wamid: "w" }));
  const sent = new RelayClient(options).send(
    { to: "+5491155550100", text: "Hola" },
    { idempotencyKey: "k" },
  );
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await sent).toMatchObject({ wamid: "w" });
  expect(keys).toEqual(["k", "k", "k"]);
  const runs = answering(inFlight, () => Response.json({ runId: "r" }));
  const run = new RelayClient(runs).startRun("a", { reference: "1", phone: "+5491155550100" });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await run).toEqual({ runId: "r" });
});

test("send gives up after the longest wait for an answer, when it is aborted, and at any other conflict", async () => {
  const order = { to: "+5491155550100", text: "Hola" };
  const { keys, ...options } = answering(inFlight);
  const late = expect(
    new RelayClient({ ...options, timeoutMs: 3_000 }).send(order),
  ).rejects.toMatchObject({ code: "conflict" });
  await vi.advanceTimersByTimeAsync(3_000);
  await late;
  expect(keys).toHaveLength(3);

  const stop = new AbortController();
  const stopped = answering(inFlight, () => {
    throw stop.signal.reason;
  });
  const aborted = new RelayClient({ ...stopped, signal: stop.signal })
    .send(order)
    .catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(500);
  stop.abort();
  expect(await aborted).toBeInstanceOf(RelayClientError);

  const other = answering(() =>
    Response.json({ error: "the account cannot send", code: "conflict" }, { status: 409 }),
  );
  await expect(new RelayClient(other).send(order)).rejects.toMatchObject({ code: "conflict" });
  expect(other.keys).toHaveLength(1);
});

test("errors of send and trackAll keep the Retry-After of the answer", async () => {
  const stopping = () =>
    Response.json(
      { error: "the relay is stopping", code: "shutting_down" },
      { status: 503, headers: { "retry-after": "5" } },
    );
  const client = new RelayClient({
    url: "http://relay.example",
    token: "t",
    fetch: async () => stopping(),
  });
  const expected = { code: "shutting_down", retryAfterMs: 5_000 };
  await expect(
    client.send({ to: "+5491155550100", text: "Hola" }, { idempotencyKey: "k" }),
  ).rejects.toMatchObject(expected);
  await expect(client.trackAll(["{}"]).next()).rejects.toMatchObject({ ...expected, line: 1 });
});
