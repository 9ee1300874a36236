// Slow: it waits until another worker takes a leader lease over.
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { Role } from "../../../src/app/engine.ts";
import { createRelay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { relayToken, settingsOf, webhookSecret } from "../../harness/relay-settings.ts";
import { usageOf } from "../../harness/sandbox-usage.ts";
import { until } from "../../harness/until.ts";
import { type Redis, startRedis } from "../../setup/redis.ts";

let redis: Redis;

beforeAll(async () => {
  redis = await startRedis({ appendonly: "always" });
});
afterAll(() => redis.stop());

interface SeenHydration {
  readonly state: string;
  readonly polled: number;
  readonly foundCount: number;
}

interface Process {
  readonly webhookUrl: string;
  ask(path: string, body?: unknown): Promise<{ status: number; body: unknown }>;
  log(): Record<string, unknown>[];
  close(): Promise<void>;
}

/** The messaging service, and relays that share one Redis, as processes of these roles are. */
async function setUp(prefix: string) {
  // Its messages move only when they are told to.
  const clock = createManualClock(Date.now());
  const sandbox = await startSandbox({ plan: "enterprise", clock });
  onTestFinished(() => sandbox.close());
  const parts = {
    accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan: "enterprise" } },
    hydrate: { delay: "300ms" },
    reconcile: { schedule: "off", after: "1s" },
  };

  async function start(role: Role): Promise<Process> {
    const whole = {
      ...settingsOf({ port: 0, storePath: "" }, parts),
      storage: { driver: "redis", url: redis.url, prefix, commandTimeout: "30s" },
    };
    const settings = parseSettings(JSON.stringify(whole), "relay.yaml", {});
    const lines: string[] = [];
    const relay = await createRelay({ settings, role, log: { write: (line) => void lines.push(line), end: async () => {} } });
    const url = `http://127.0.0.1:${(await relay.listen()).port}`;
    onTestFinished(() => relay.close());
    return {
      webhookUrl: `${url}/webhooks/main`,
      async ask(path, body) {
        const headers = { authorization: `Bearer ${relayToken}`, ...(body === undefined ? {} : { "content-type": "application/json" }) };
        const answer = await fetch(
          `${url}${path}`,
          body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) },
        );
        return { status: answer.status, body: await answer.json() };
      },
      log: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>),
      close: async () => void (await relay.close()),
    };
  }

  const calls = async () => (await usageOf(sandbox)).apiCalls.used;

  /** Sends messages at the service and registers them at a receiver, as sent a while ago. */
  async function sendAndTrack(receiver: Process, count: number): Promise<string[]> {
    const ids: string[] = [];
    const [template] = sandbox.templates();
    for (let n = 0; n < count; n++) {
      const to = `+54911555${String(n).padStart(4, "0")}1`;
      const { body } = await sandbox.call("POST", "/messages", { to, template: { id: template?.id, variables: {} } });
      const { id, wamid } = body as { id: string; wamid: string };
      const sentAt = new Date(Date.now() - 90_000).toISOString();
      expect((await receiver.ask("/v1/messages/track", { account: "main", id, wamid, sentAt })).status).toBe(200);
      ids.push(id);
    }
    return ids;
  }
  /** Moves a message at the service, which tells it by an event. */
  async function move(id: string | undefined, status: string): Promise<void> {
    expect((await sandbox.control("POST", `/messages/${id}/status`, { status })).status).toBe(200);
    await clock.advance(1);
  }
  return { sandbox, start, calls, sendAndTrack, move };
}

async function hydrations(receiver: Process): Promise<SeenHydration[]> {
  const list = (await receiver.ask("/v1/events?limit=1000")).body as { data: { seq: number }[] };
  const events = await Promise.all(list.data.map(({ seq }) => receiver.ask(`/v1/events/${seq}`)));
  return events.flatMap(({ body }) => {
    const { hydration } = body as { hydration: SeenHydration | null };
    return hydration === null ? [] : [hydration];
  });
}

test("one worker hydrates a truncated event of a receiver, and another continues when it stops", {
  tags: ["slow"],
}, async () => {
  const { sandbox, start, calls, sendAndTrack, move } = await setUp("hydrating");
  const [receiver, first, second] = await Promise.all([start("receive"), start("work"), start("work")]);
  const ids = await sendAndTrack(receiver, 6);
  sandbox.addWebhook({ url: receiver.webhookUrl, secret: webhookSecret });
  sandbox.setFaults({ events: { truncate: 1 } });
  const before = await calls();
  await move(ids[0], "delivered");
  await until("all are settled", async () => {
    const seen = await hydrations(receiver);
    return seen.length === 1 && seen.every(({ state }) => state === "done");
  });
  expect(await hydrations(receiver)).toMatchObject([{ polled: 6, foundCount: 1 }]);
  expect(await calls()).toBe(before + 6);
  const passesOf = (worker: Process) => worker.log().filter(({ truncated }) => truncated === 1).length;
  await until("it is said", () => passesOf(first) + passesOf(second) > 0);
  const [busy, idle] = passesOf(first) === 1 ? [first, second] : [second, first];
  expect([passesOf(busy), passesOf(idle)]).toEqual([1, 0]);

  // The one that does it is killed while the service is down.
  sandbox.setFaults({ events: { truncate: 1 }, api: [{ answer: "reset", endpoint: "GET /messages/{id}" }] });
  await move(ids[1], "delivered");
  await until("it waits", async () => (await hydrations(receiver)).length === 2);
  await until("it is tried", async () => (await calls()) > before + 6);
  await busy.close();
  sandbox.setFaults();
  await until("another has gone on", async () => (await hydrations(receiver)).every(({ state }) => state === "done"));
  await until("it is said", () => passesOf(idle) === 1);
});

test("two processes that reconcile at once poll each message once", async () => {
  const { start, calls, sendAndTrack } = await setUp("reconciling");
  const [one, other] = await Promise.all([start("receive"), start("receive")]);
  await sendAndTrack(one, 12);
  const before = await calls();
  const polled = await Promise.all(
    [one, other].map(async (receiver) => {
      const { status, body } = await receiver.ask("/v1/reconcile", {});
      expect(status).toBe(200);
      return (body as { accounts: { polled: number }[] }).accounts.reduce((sum, account) => sum + account.polled, 0);
    }),
  );
  expect(polled.reduce((sum, count) => sum + count, 0)).toBe(12);
  expect(await calls()).toBe(before + 12);
});
