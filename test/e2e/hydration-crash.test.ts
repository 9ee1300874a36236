// @module-tag slow: it kills the relay during a hydration pass.
import { expect, test } from "vitest";
import { startSandbox } from "../../src/sandbox/start-sandbox.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { relayToken } from "../harness/relay-settings.ts";
import { usageOf } from "../harness/sandbox-usage.ts";
import { integrityOf, rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";
import { startHttp } from "../integration/url-destination/downstream.ts";

const count = 60;
/** Calls that a crash may have cut, and that are made again. */
const atOnce = 8;

async function hydrationOf(relay: RelayProcess): Promise<Record<string, unknown>> {
  const [event] = rowsOf<{ event: number }>(relay.storePath, "SELECT event FROM hydrations");
  return ((await relay.ask(`/v1/events/${event?.event}`)).body as { hydration: Record<string, unknown> }).hydration;
}

/** Passes calls on to the service; those after the first `most` get no answer, so that a pass is in the middle for as long as it takes. */
async function openGate(service: string) {
  let most = 0;
  const { port, seen } = await startHttp(({ url, headers: { authorization = "" } }, response) => {
    if (seen.length > most) return;
    fetch(new URL(String(url), service), { headers: { authorization } }).then(
      async (answer) => response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text()),
      () => response.destroy(),
    );
  });
  return {
    url: service.replace(new URL(service).host, `127.0.0.1:${port}`),
    /** From now on, so many more get an answer. */
    open(more: number) {
      most = seen.length + more;
    },
  };
}

test("a hydration pass continues after kill -9 instead of starting again", async () => {
  await using sandbox = await startSandbox({ plan: "enterprise", speed: 1_000, faults: { events: { truncate: 1 } } });
  const gate = await openGate(sandbox.url);
  const relay = await startRelay({
    settings: {
      accounts: { main: { baseUrl: gate.url, apiKey: sandbox.key, plan: "enterprise", share: 1 } },
      sources: { main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } } },
      hydrate: { delay: "100ms" },
      reconcile: { schedule: "off" },
    },
  });
  // The phones are switched off: all that happens is that each message is sent, before anybody listens.
  const phones = Array.from({ length: count }, (_, n) => `+54911${String(n).padStart(4, "0")}0003`);
  await sandbox.control("POST", "/campaigns", { name: "sent", phones, perSecond: 1_000 });
  await until("all are sent", () => sandbox.messages().filter(({ status }) => status === "sent").length === count);
  const tracked = await fetch(`${relay.url}/v1/messages/track`, {
    method: "POST",
    headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/x-ndjson" },
    body: sandbox
      .messages()
      .map(({ id, wamid }) => `${JSON.stringify({ account: "main", wamid, id })}\n`)
      .join(""),
  });
  await tracked.text();
  expect(tracked.status).toBe(200);
  const polled = async () => (await usageOf(sandbox)).apiCalls.used;
  expect(await polled()).toBe(0);

  gate.open(count / 3);
  sandbox.addWebhook({ url: relay.webhookUrl });
  await sandbox.control("POST", "/events", { event: "message.status", data: {} });
  const kills = [];
  for (const share of [1 / 3, 2 / 3]) {
    await until(`${share} is polled`, async () => (await polled()) >= count * share);
    await relay.kill9();
    kills.push(await polled());
    expect(kills.at(-1)).toBeLessThan(count);
    expect(integrityOf(relay.storePath)).toBe("ok");
    expect(rowsOf(relay.storePath, "SELECT 1 FROM hydrations WHERE state = 0")).toHaveLength(1);
    gate.open(share < 1 / 2 ? count / 3 : Number.POSITIVE_INFINITY);
    await relay.start();
  }
  await until("the pass is over", async () => (await hydrationOf(relay))["state"] === "done");
  const used = await polled();
  expect(used).toBeGreaterThanOrEqual(count);
  expect(used).toBeLessThanOrEqual(count + kills.length * atOnce);
  const hydration = await hydrationOf(relay);
  expect(hydration).toMatchObject({ state: "done", foundCount: count, unknown: 0 });
  expect(hydration["polled"]).toBeGreaterThanOrEqual(count);
  expect(hydration["polled"]).toBeLessThanOrEqual(used);
  const known = rowsOf(relay.storePath, "SELECT status, count(*) AS n FROM subjects GROUP BY status");
  expect(known).toEqual([{ status: "sent", n: count }]);
  expect(rowsOf(relay.storePath, "SELECT count(*) AS n FROM events WHERE origin <> 0")).toEqual([{ n: count }]);
  expect((await relay.stop()).code).toBe(0);
});
