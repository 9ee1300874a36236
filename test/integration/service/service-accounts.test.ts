import { expect, onTestFinished, test } from "vitest";
import { limiterHooks } from "../../../src/app/hooks.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { systemClock } from "../../../src/model/clock.ts";
import { createLogger } from "../../../src/observe/logger.ts";
import { createMetrics } from "../../../src/observe/metrics.ts";
import { createCalling } from "../../../src/send/calling.ts";
import { createServiceAccounts } from "../../../src/service/accounts.ts";
import type { DispatchedCall } from "../../../src/service/limits/limiter.ts";
import { createPolling } from "../../../src/service/polling.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";

/** Of a send that nobody ends, and whose key nobody stores. */
const steps = {
  signal: new AbortController().signal,
  starting: async () => {},
  repeating: async () => {},
};

const callMe: Parameters<ReturnType<typeof createCalling>>[2] = async (client, options) => {
  await client.me(options);
  return { answer: {}, sent: { type: "run", runId: "", reference: "", metadata: undefined } };
};

/** Answers `GET /me` to the key `good`, and 401 in the document's shape to others. */
async function openService() {
  const keys: string[] = [];
  const { port } = await startHttp(({ headers }, response) => {
    const key = (headers.authorization ?? "").replace("Bearer ", "");
    keys.push(key);
    response.writeHead(key.startsWith("good") ? 200 : 401, { "content-type": "application/json" });
    response.end(key.startsWith("good") ? "{}" : '{"error":"La clave no es válida.","cause":null}');
  });
  return { keys, url: `http://127.0.0.1:${port}` };
}

function accounts(main: Record<string, unknown>) {
  return parseSettings(JSON.stringify({ accounts: { main, silent: {} } }), "f", {}).accounts;
}

function setUp(main: Record<string, unknown>, recent: readonly DispatchedCall[] = []) {
  const lines: string[] = [];
  const log = createLogger(
    { level: "info", pii: "masked" },
    { write: (line) => void lines.push(line) },
  );
  const metrics = createMetrics({ version: "0", node: "24", storage: "sqlite" });
  const services = createServiceAccounts(accounts(main), {
    clock: systemClock,
    random: () => 0.5,
    recent: () => recent,
    isTemporary: () => false,
    hooks: (account) =>
      limiterHooks(account, { log, metrics }, { called: () => {}, keyRefused: () => {} }),
  });
  const others = {
    attention: [],
    routes: [],
    sources: [],
    listeners: [],
    requestsInFlight: 0,
    storing: true,
  };
  onTestFinished(() => services.close(200));
  return {
    services,
    lines,
    reload: (next: Record<string, unknown>) => services.reload(accounts(next)),
    me: () => services.client("main")?.me(),
    state: () => services.limiters().get("main")?.caps.requests,
    /** The samples of our own metrics of the service, as `name{labels}` → value. */
    async samples() {
      const text = await metrics.text({
        ...others,
        accounts: services.limiters(),
        now: Date.now(),
      });
      return Object.fromEntries(
        [...text.matchAll(/^relay_service_(\S+) (\S+)$/gm)].map(([, name, value]) => [
          name,
          Number(value),
        ]),
      );
    },
  };
}

test("an account with base URL and key has a client; its limits are in the metrics", async () => {
  const service = await openService();
  const { services, me, samples, lines } = setUp({ baseUrl: service.url, apiKey: "good-key" });
  expect([services.client("silent"), services.client("nobody")]).toEqual([null, null]);
  await me();
  expect(await samples()).toEqual({
    'calls_total{account="main",outcome="answered"}': 1,
    'slots_used{account="main",cap="requests"}': 1,
    'slots_used{account="main",cap="messages"}': 0,
    'slots_limit{account="main",cap="requests"}': 150,
    'slots_limit{account="main",cap="messages"}': 30,
    'cap_held{account="main",cap="requests"}': 0,
    'cap_held{account="main",cap="messages"}': 0,
    'calls_waiting{account="main",priority="send"}': 0,
    'calls_waiting{account="main",priority="poll"}': 0,
    'stopped{account="main",reason="quota"}': 0,
    'stopped{account="main",reason="quota-messages"}': 0,
    'stopped{account="main",reason="quota-runs"}': 0,
    'stopped{account="main",reason="quota-reads"}': 0,
    'stopped{account="main",reason="unauthenticated"}': 0,
    'stopped{account="main",reason="blocked"}': 0,
  });
  expect(lines).toEqual([]);
});

test("an account begins with the calls that an earlier process noted", async () => {
  const calls = [{ operation: "runs", at: Date.now() }] as const;
  expect(setUp({ baseUrl: "http://127.0.0.1:9", apiKey: "good-key" }, calls).state()).toMatchObject(
    { used: 1 },
  );
});

test("a refused key is logged once, shown as stopped and not used again, until the settings change it", async () => {
  const service = await openService();
  const { me, reload, samples, lines } = setUp({ baseUrl: service.url, apiKey: "bad-key" });
  await expect(me()).rejects.toMatchObject({ kind: "unauthenticated", local: false });
  await expect(me()).rejects.toMatchObject({ kind: "unauthenticated", local: true });
  expect(service.keys).toEqual(["bad-key"]);
  expect(await samples()).toMatchObject({
    'calls_total{account="main",outcome="unauthenticated"}': 1,
    'calls_total{account="main",outcome="refused"}': 1,
    'stopped{account="main",reason="unauthenticated"}': 1,
  });
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    expect.objectContaining({
      level: "error",
      account: "main",
      reason: "unauthenticated",
      until: expect.stringMatching(/^\d{4}-.*Z$/),
    }),
  ]);
  expect(lines.join("")).not.toContain("bad-key");

  reload({ baseUrl: service.url, apiKey: "good-key" });
  await me();
  expect(await samples()).toMatchObject({
    'stopped{account="main",reason="unauthenticated"}': 0,
    'slots_used{account="main",cap="requests"}': 2,
  });
});

test("a reload keeps the usage for the same service, and the client for the same key", async () => {
  const service = await openService();
  const other = await openService();
  const main = { baseUrl: service.url, apiKey: "good-one" };
  const { services, me, reload, state } = setUp(main);
  await me();
  const first = services.client("main");

  reload(main);
  expect([services.client("main"), state()?.used, state()?.limit]).toEqual([first, 1, 150]);

  reload({ ...main, share: 1, plan: "enterprise" });
  expect([services.client("main"), state()?.used, state()?.limit]).toEqual([first, 1, 1200]);

  reload({ ...main, apiKey: "good-two" });
  await me();
  expect([state()?.used, state()?.limit, service.keys]).toEqual([2, 150, ["good-one", "good-two"]]);
  // The client with the old key is of no more use.
  await expect(first?.me()).rejects.toMatchObject({ kind: "network", outcome: "not-done" });

  reload({ ...main, baseUrl: other.url });
  expect(state()?.used).toBe(0);
  await me();
  expect(other.keys).toEqual(["good-one"]);

  reload({ baseUrl: other.url });
  expect([services.client("main"), services.limiters().size]).toEqual([null, 0]);
});

test("a send that waits for room is sent with the key of a reload", async () => {
  const { url: baseUrl, keys } = await openService();
  const { services, me, reload } = setUp({ baseUrl, apiKey: "good-one", share: 0.001 });
  await me();
  const sending = createCalling(services, Date.now)("main", "reads", callMe)(steps);
  await until("it waits", () => services.limiters().get("main")?.caps.requests.waiting.poll === 1);
  const next = { baseUrl, apiKey: "good-two" };
  reload({ ...next, share: 0.001 });
  reload(next);
  expect(await sending).toMatchObject({ type: "done" });
  expect(keys).toEqual(["good-one", "good-two"]);
});

test("a send that a cap refused before is sent with the key of a reload", async () => {
  const keys: string[] = [];
  const { port } = await startHttp(({ headers }, response) => {
    keys.push(headers.authorization ?? "");
    const isFirst = keys.length === 1;
    response.writeHead(isFirst ? 429 : 200, {
      "content-type": "application/json",
      ...(isFirst ? { "retry-after": "1" } : {}),
    });
    response.end(isFirst ? '{"error":"Superaste el límite."}' : "{}");
  });
  const baseUrl = `http://127.0.0.1:${port}`;
  const { services, reload } = setUp({ baseUrl, apiKey: "good-one" });
  const sending = createCalling(services, Date.now)("main", "reads", callMe)(steps);
  await until("it waits", () => services.limiters().get("main")?.caps.requests.waiting.poll === 1);
  reload({ baseUrl, apiKey: "good-two" });
  expect(await sending).toMatchObject({ type: "done" });
  expect(keys).toEqual(["Bearer good-one", "Bearer good-two"]);
});

test("closing ends waiting calls, and waits for answers until its deadline", async () => {
  const { port, seen } = await startHttp(() => {});
  const baseUrl = `http://127.0.0.1:${port}`;
  const { services, me, reload } = setUp({ baseUrl, apiKey: "good", share: 0.001 });
  const hanging = me();
  hanging?.catch(() => {});
  await until("it arrives", () => seen.length === 1);
  // The client that hangs is closed by a reload, which does not hurry it.
  reload({ baseUrl, apiKey: "better", share: 0.001 });
  // The share allows one call a minute.
  const waiting = me();
  expect(services.limiters().get("main")?.caps.requests.waiting.poll).toBe(1);
  const closed = services.close(50);
  await expect(waiting).rejects.toMatchObject({ kind: "network" });
  await closed;
  await expect(hanging).rejects.toMatchObject({
    kind: "network",
    outcome: "unknown",
    failure: { code: "closed" },
  });
  expect(services.client("main")).toBeNull();
});

test("without a part of the caps, nothing is called, and a send is answered store_unavailable", async () => {
  const service = await openService();
  const services = createServiceAccounts(accounts({ baseUrl: service.url, apiKey: "good-key" }), {
    clock: systemClock,
    random: () => 0.5,
    recent: () => [],
    budgets: () => ({ step: () => Promise.reject(new Error("the store is unavailable")) }),
    isTemporary: () => false,
    hooks: () => ({}),
  });
  onTestFinished(() => services.close(200));
  const send = createCalling(services, Date.now)("main", "messages", async (client, options) => {
    const { wamid: runId } = await client.sendMessage({ to: "+541", text: "hola" }, options);
    return { answer: {}, sent: { type: "run", runId, reference: "", metadata: undefined } };
  });
  expect(await send(steps)).toMatchObject({
    type: "not-done",
    error: { code: "store_unavailable", retryAfterMs: 1_000 },
  });
  expect(service.keys).toEqual([]);
});

test("looking at one account costs the same, however many there are", () => {
  let reads = 0;
  const now = () => {
    reads += 1;
    return 0;
  };
  /** Reads of the clock while each account is looked at, as a scheduled round does. */
  function readsOf(count: number): number {
    const names = Array.from({ length: count }, (_, n) => `a${n}`);
    const account = { baseUrl: "http://127.0.0.1:9", apiKey: "key" };
    const settings = { accounts: Object.fromEntries(names.map((name) => [name, account])) };
    const services = createServiceAccounts(
      parseSettings(JSON.stringify(settings), "f", {}).accounts,
      {
        clock: { now, after: () => () => {} },
        random: () => 0.5,
        recent: () => [],
        isTemporary: () => false,
        hooks: () => ({}),
      },
    );
    onTestFinished(() => services.close(0));
    const { hold } = createPolling({ services, now, polled: () => {} });
    reads = 0;
    expect(services.callable().map(hold)).toEqual(names.map(() => null));
    return reads;
  }
  expect(readsOf(1)).toBeGreaterThan(0);
  expect(readsOf(100)).toBe(100 * readsOf(1));
});
