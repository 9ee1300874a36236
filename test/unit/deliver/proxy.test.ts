import { describe, expect, test } from "vitest";
import { proxiedSources } from "../../../src/app/rules.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { UrlOutcome } from "../../../src/deliver/destinations/url.ts";
import { answerLimit, createProxy, type ProxyParts } from "../../../src/deliver/proxy.ts";
import { isProxyRoute, proxyRoute, type Settlement } from "../../../src/model/delivery.ts";
import type { ReceivedEvent } from "../../../src/model/event.ts";
import type { EventId } from "../../../src/model/ids.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";
import { settingsOf } from "../../harness/relay-settings.ts";

const sourcesWith = (url: string) =>
  proxiedSources(
    parseSettings(
      JSON.stringify(
        settingsOf(
          { port: 0, storePath: "none.db" },
          {
            sources: {
              flows: {
                account: "main",
                kind: "automation-request",
                mode: "proxy",
                signature: { service: "acme", secrets: ["some-secret-of-a-test"] },
                to: { url },
              },
            },
          },
        ),
      ),
      "relay.yaml",
      {},
    ),
  );

const event: ReceivedEvent = {
  account: "main",
  source: "flows",
  origin: "webhook",
  receivedAt: 1,
  body: Buffer.from("{}"),
  headers: { "content-type": "application/json" },
  secret: null,
  envelope: {
    id: "e1" as EventId,
    event: "automation.request",
    createdAt: "2026-11-21T12:00:00Z",
    data: {},
  },
  subject: { type: "none" },
};

const answered = (status: number, response: Buffer | null = null): UrlOutcome => ({
  result: { kind: "answered", status, retryAfterMs: null },
  tookMs: 5,
  response,
});

/**
 * Proxying over a destination that answers when told to, and a store that keeps what it is given.
 */
function open(parts: Partial<ProxyParts> = {}) {
  const clock = createManualClock();
  const settlements: Settlement[] = [];
  const waiting: ((outcome: UrlOutcome) => void)[] = [];
  const destinations: { url: string; closed: boolean }[] = [];
  let storeFailures = 0;
  const proxy = createProxy(sourcesWith("https://one.example/"), {
    clock,
    redact: (outcome) => outcome,
    connect: (to) => {
      const destination = { url: to.url, closed: false };
      destinations.push(destination);
      const inFlight: Promise<UrlOutcome>[] = [];
      return {
        send() {
          const sending = new Promise<UrlOutcome>((resolve) => waiting.push(resolve));
          inFlight.push(sending);
          return sending;
        },
        async retire() {
          await Promise.all(inFlight);
          destination.closed = true;
        },
        async close() {
          destination.closed = true;
          for (const resolve of waiting)
            resolve({ result: { kind: "failed", error: "aborted" }, tookMs: 1, response: null });
        },
      };
    },
    accept: async () => ({ result: "accepted", seq: 7 }),
    settle: async (settlement) => void settlements.push(settlement),
    hooks: {
      attempted: () => {},
      failed: () => {},
      storeFailed: () => {
        storeFailures += 1;
      },
    },
    ...parts,
  });
  return { clock, proxy, settlements, waiting, destinations, storeFailures: () => storeFailures };
}

test("what cannot be stored is not sent", async () => {
  const { proxy, waiting } = open({ accept: () => Promise.reject(new StoreUnavailable("full")) });
  await expect(proxy.exchange(event)).rejects.toThrow(StoreUnavailable);
  expect(waiting).toEqual([]);
});

test("what came of it is written down although the store fails for a while, and the step does not wait for that", async () => {
  let failing = 3;
  const settlements: Settlement[] = [];
  const { clock, proxy, waiting, storeFailures } = open({
    settle: async (settlement) => {
      if (failing-- > 0) throw new StoreUnavailable("full");
      settlements.push(settlement);
    },
  });
  const exchange = proxy.exchange(event);
  await settled();
  waiting[0]?.(answered(200));
  expect((await exchange).status).toBe(200);
  await settled();
  expect([settlements.length, storeFailures()]).toEqual([0, 1]);
  await clock.advance(5_000);
  expect(storeFailures()).toBe(3);
  expect(settlements).toMatchObject([
    { route: "proxy:flows", event: 7, attempt: { number: 1 }, settled: { to: "delivered" } },
  ]);
});

describe("the verdict", () => {
  const failed = (error: "timeout" | "reset"): UrlOutcome => ({
    result: { kind: "failed", error },
    tookMs: 1,
    response: null,
  });
  test.each([
    ["200", answered(200), "delivered"],
    ["299", answered(299), "delivered"],
    ["300", answered(300), "dead"],
    ["an answer of the longest length", answered(200, Buffer.alloc(answerLimit)), "delivered"],
    ["a byte more", answered(200, Buffer.alloc(answerLimit + 1)), "dead"],
    ["a timeout", failed("timeout"), "dead"],
    ["a reset", failed("reset"), "dead"],
  ])("%s", async (_name, outcome, to) => {
    const { proxy, settlements, waiting } = open();
    const exchange = proxy.exchange(event).catch(() => null);
    await settled();
    waiting[0]?.(outcome);
    await exchange;
    await settled();
    expect(settlements).toMatchObject([
      { settled: to === "dead" ? { to, reason: expect.stringMatching(/^proxied: /) } : { to } },
    ]);
    expect(settlements[0]?.attempt.response?.length ?? 0).toBeLessThanOrEqual(4096);
  });
});

test("after a reload the old destination is closed with its last exchange, an idle one at once", async () => {
  const { proxy, waiting, destinations } = open();
  const exchange = proxy.exchange(event);
  await settled();
  proxy.reload(sourcesWith("https://two.example/"));
  proxy.reload(sourcesWith("https://three.example/"));
  await settled();
  expect(destinations.map(({ closed }) => closed)).toEqual([false, true, false]);
  waiting[0]?.(answered(204));
  await exchange;
  await settled();
  expect(destinations[0]?.closed).toBe(true);
});

test("closing tells the steps that wait, those of an older configuration too", async () => {
  const { proxy, settlements } = open();
  const first = proxy.exchange(event);
  await settled();
  proxy.reload(sourcesWith("https://two.example/"));
  const second = proxy.exchange({ ...event, envelope: { ...event.envelope, id: "e2" as EventId } });
  await settled();
  const told = Promise.allSettled([first, second]);
  await proxy.close();
  await proxy.close();
  expect(await told).toMatchObject([
    { reason: { code: "downstream_failed" } },
    { reason: { code: "downstream_failed" } },
  ]);
  expect(settlements.map(({ settled: { to } }) => to)).toEqual(["dead", "dead"]);
});

test("a source that is gone", async () => {
  const { proxy } = open();
  proxy.reload([]);
  await expect(proxy.exchange(event)).rejects.toMatchObject({ code: "not_found" });
  expect([isProxyRoute(proxyRoute("flows")), isProxyRoute("flows")]).toEqual([true, false]);
});

test("a copy of a failing exchange gets the same failure", async () => {
  const { proxy, waiting } = open();
  const copies = [proxy.exchange(event), proxy.exchange(event)];
  await settled();
  waiting[0]?.({ result: { kind: "failed", error: "connect" }, tookMs: 1, response: null });
  for (const copy of copies)
    await expect(copy).rejects.toMatchObject({ code: "downstream_failed" });
  expect(waiting.length).toBe(1);
});

test("a copy whose first was answered is refused, and nothing is sent", async () => {
  const { proxy, waiting } = open({ accept: async () => ({ result: "duplicate", seq: 7 }) });
  await expect(proxy.exchange(event)).rejects.toMatchObject({ code: "conflict" });
  expect(waiting).toEqual([]);
});

test("after a request could not be stored, the next copy is tried", async () => {
  let fails = true;
  const { proxy, waiting } = open({
    accept: async () => {
      if (fails) throw new StoreUnavailable("full");
      return { result: "accepted", seq: 7 };
    },
  });
  await expect(proxy.exchange(event)).rejects.toThrow(StoreUnavailable);
  fails = false;
  const second = proxy.exchange(event);
  await settled();
  waiting[0]?.(answered(200));
  expect((await second).status).toBe(200);
});
