// Slow: it starts a Redis with receiver and worker.
import { expect, onTestFinished, test } from "vitest";
import type { Role } from "../../../src/app/engine.ts";
import { createRelay, type Relay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { createEventMaker, type SandboxEvent } from "../../../src/sandbox/events/event-maker.ts";
import { createRandom } from "../../../src/sandbox/random.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { relayToken, routeTo, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { startRedis } from "../../setup/redis.ts";

interface Process {
  readonly relay: Relay;
  readonly url: string;
  /** With a body, or null for none, by POST. */
  ask(path: string, body?: object | null): Promise<{ status: number; body: unknown }>;
}

/** Processes of one relay in this one, on a Redis of their own. */
async function openProcesses<const R extends readonly Role[]>(roles: R, parts: SettingsParts = {}): Promise<{ [K in keyof R]: Process }> {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const settings = parseSettings(
    JSON.stringify(
      settingsOf({ port: 0, storePath: "" }, { ...parts, storage: { driver: "redis", url: redis.url, commandTimeout: "30s" } }),
    ),
    "relay.yaml",
    {},
  );
  const opened = await Promise.all(
    roles.map(async (role): Promise<Process> => {
      const relay = await createRelay({ settings, role, log: { write: () => {}, end: async () => {} } });
      onTestFinished(() => relay.close());
      const url = `http://127.0.0.1:${(await relay.listen()).port}`;
      return {
        relay,
        url,
        async ask(path, body) {
          const headers = { authorization: `Bearer ${relayToken}`, ...(body ? { "content-type": "application/json" } : {}) };
          const answer = await fetch(
            url + path,
            body === undefined ? { headers } : { headers, method: "POST", ...(body === null ? {} : { body: JSON.stringify(body) }) },
          );
          const text = await answer.text();
          return { status: answer.status, body: answer.headers.get("content-type")?.includes("json") === true ? JSON.parse(text) : text };
        },
      };
    }),
  );
  return opened as unknown as { [K in keyof R]: Process };
}

function createMessages(): (n: number, status: "sent" | "delivered") => SandboxEvent {
  const make = createEventMaker({ clock: Date.now, random: createRandom(1) });
  return (n, status) => make.messageStatus(`wamid.${n}` as Parameters<typeof make.messageStatus>[0], status);
}

test("a worker delivers what receivers accept, in order per message, and serves operator pages only", async () => {
  const downstream = await openDownstream();
  const [first, second, worker] = await openProcesses(["receive", "receive", "work"], {
    tracking: { unknown: "forward" },
    routes: [routeTo(downstream.url)],
  });
  const event = createMessages();
  for (let n = 0; n < 20; n++) {
    expect((await postEvent(`${first.url}/webhooks/main`, event(n, "sent"))).word).toBe("accepted");
    expect((await postEvent(`${second.url}/webhooks/main`, event(n, "delivered"))).word).toBe("accepted");
  }
  await until("all are there", () => downstream.counts().taken === 40);
  for (let n = 0; n < 20; n++) {
    const seen = downstream.arrivals.filter(({ wamid }) => wamid === `wamid.${n}`);
    expect(seen.map(({ body }) => (JSON.parse(String(body)) as SandboxEvent).data["status"])).toEqual(["sent", "delivered"]);
  }
  // The answer reaches the downstream before it is settled.
  await until("all are settled", async () => {
    const { body } = await second.ask("/v1/stats");
    return (body as { deliveries: { delivered: number } }).deliveries.delivered === 40;
  });

  for (const [path, receiver, works] of [
    ["/healthz", 200, 200],
    ["/readyz", 200, 200],
    ["/v1/events", 200, 404],
  ] as const) {
    expect([path, (await first.ask(path)).status, (await worker.ask(path)).status]).toEqual([path, receiver, works]);
  }
  expect((await postEvent(`${worker.url}/webhooks/main`, event(99, "sent"))).status).toBe(404);
  const attempts = ({ body }: { body: unknown }) => String(body).match(/relay_delivery_attempts_total\{.*\} \d+/g) ?? [];
  expect(attempts(await worker.ask("/metrics"))).toHaveLength(1);
  expect(attempts(await first.ask("/metrics"))).toHaveLength(0);
});

test("a listener of one receiver gets events of another, whose registration releases parked events", async () => {
  const downstream = await openDownstream();
  const [first, second] = await openProcesses(["receive", "receive", "work"], {
    tracking: { unknown: "park", parkFor: "1h" },
    routes: [routeTo(downstream.url, { match: { events: ["message.status"], tracked: true } })],
  });
  const gone = new AbortController();
  onTestFinished(() => gone.abort());
  const heard: string[] = [];
  const stream = await fetch(`${second.url}/v1/listen`, { headers: { authorization: `Bearer ${relayToken}` }, signal: gone.signal });
  const hearing = (async () => {
    for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>) heard.push(Buffer.from(chunk).toString());
  })().catch(() => {});
  await until("greeted", () => heard.join("").includes("event: hello"));

  const event = createMessages();
  await postEvent(`${first.url}/webhooks/main`, event(1, "sent"));
  await until("heard", () => heard.join("").includes("event: event"));
  expect(downstream.counts().arrivals).toBe(0);
  const { status, body } = await second.ask("/v1/messages/track", { account: "main", wamid: "wamid.1", reference: "order-1" });
  expect([status, body]).toEqual([200, { created: 1, known: 0 }]);
  await until("released", () => downstream.counts().taken === 1);
  gone.abort();
  await hearing;
});

test("a receiver resumes a destination that answered 410, and the worker continues", { tags: ["slow"] }, async () => {
  const downstream = await openDownstream();
  const [receiver] = await openProcesses(["receive", "work"], { tracking: { unknown: "forward" }, routes: [routeTo(downstream.url)] });
  const event = createMessages();
  downstream.fail({ status: 410 });
  await postEvent(`${receiver.url}/webhooks/main`, event(1, "sent"));
  await until(
    "stopped",
    async () => String((await receiver.ask("/metrics")).body).includes('relay_destination_stopped{route="everything"} 1') || null,
  );
  downstream.recover();
  expect(await receiver.ask("/v1/routes/everything/resume", null)).toEqual({ status: 200, body: { route: "everything", resumed: true } });
  await until("delivered", () => downstream.counts().taken === 1);
});

test("refuses a single role on an embedded store in one sentence", async () => {
  const settings = parseSettings(JSON.stringify(settingsOf({ port: 0, storePath: "/nowhere/relay.db" })), "relay.yaml", {});
  const made = createRelay({ settings, role: "receive", log: { write: () => {}, end: async () => {} } });
  await expect(made).rejects.toThrow("the role receive alone needs storage.driver postgres");
});
