import { describe, expect, onTestFinished, test } from "vitest";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import type { MessageRecord } from "../../../src/sandbox/world.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { hour, minute, openRelay } from "./open-relay.ts";

test("submits the new status of a tracked message and records it on the event", async () => {
  const relay = await openRelay();
  const message = await relay.send();
  relay.truncate(1);
  await relay.move(message, "delivered");
  await relay.pass(5_000);
  const [event] = await relay.truncated();
  expect(event?.hydration).toMatchObject({ state: "done", polled: 1, foundCount: 1, unknown: 0 });
  const [news] = event?.hydration?.found ?? [];
  expect(news).toMatchObject({ wamid: message.wamid, status: "delivered" });
  const learned = (await relay.ask(`/v1/events/${news?.seq}`)).body as { text: string };
  expect(learned).toMatchObject({
    origin: "hydrate",
    status: "delivered",
    previousStatus: null,
    transition: true,
    disposition: "routed",
  });
  expect(JSON.parse(learned.text)).toMatchObject({
    relay: { origin: "hydrate", messageId: message.id, because: event?.id },
  });
  expect(relay.polled).toEqual([message.id]);
  expect(relay.downstream.arrivals.map(({ eventId }) => eventId)).toEqual([event?.id, news?.id]);
});

test("continues when the API is back after an hour, and loses nothing", async () => {
  const relay = await openRelay();
  const messages = [await relay.send(), await relay.send(), await relay.send()];
  relay.sandbox.setFaults({
    events: { truncate: 1 },
    api: [{ answer: 500, endpoint: "GET /messages/{id}" }],
  });
  for (const message of messages) await relay.move(message, "delivered");
  await relay.pass(hour, 5_000);
  expect((await relay.truncated()).map(({ hydration }) => hydration?.state)).toEqual([
    "waiting",
    "waiting",
    "waiting",
  ]);
  const firstPolls = relay.polled.length;
  expect(firstPolls).toBeGreaterThan(3);
  expect(firstPolls).toBeLessThan(20);
  relay.truncate(1);
  await relay.pass(11 * minute, 1_000);
  for (const { hydration } of await relay.truncated()) {
    expect(hydration).toMatchObject({ state: "done", polled: 3, foundCount: 3, unknown: 0 });
  }
  for (const message of messages) expect(await relay.status(message)).toBe("delivered");
});

describe("routes that hold", () => {
  const holding = {
    name: "holding",
    match: { events: ["message.*", "automation.*"] },
    truncated: "hold",
    payload: "enriched",
  };
  const open = async () => {
    const relay = await openRelay();
    const routes = [
      routeTo(`${relay.downstream.url}/all`, { name: "all" }),
      routeTo(`${relay.downstream.url}/holding`, holding),
      routeTo(`${relay.downstream.url}/reads`, {
        name: "reads",
        match: { statuses: ["read"], tracked: true },
        emit: "transitions",
      }),
    ];
    await relay.reload({ routes });
    const at = (path: string) =>
      relay.downstream.arrivals.filter((arrival) => arrival.path === path);
    return { relay, at };
  };

  test("get the found statuses instead of the truncated event", async () => {
    const { relay, at } = await open();
    const message = await relay.send();
    relay.truncate(1);
    await relay.move(message, "read");
    await relay.pass(1_000);
    const [held] = await relay.truncated();
    expect(held).toMatchObject({
      routes: [{ verdict: "deliver" }, { verdict: "park" }, { verdict: "skip", reason: "status" }],
    });
    expect([at("/all").length, at("/holding").length]).toEqual([1, 0]);
    await relay.pass(5_000);
    const [event] = await relay.truncated();
    expect(event).toMatchObject({
      disposition: "routed",
      routes: [{}, { route: "holding", verdict: "skip", reason: "hydrated" }, {}],
    });
    const news = event?.hydration?.found[0]?.id;
    expect(
      [at("/all"), at("/holding"), at("/reads")].map((arrivals) =>
        arrivals.map(({ eventId }) => eventId),
      ),
    ).toEqual([[event?.id, news], [news], [news]]);
  });

  test("get results of automations at once", async () => {
    const { relay, at } = await open();
    const automation = relay.sandbox.automations().find(({ trigger }) => trigger === "manual")
      ?.id as string;
    const answered = relay.ask(`/v1/automations/${automation}/runs`, {
      method: "POST",
      body: { reference: "order-1", phone: "+549115550000" },
    });
    await relay.pass(100);
    const { runId } = (await answered).body as { runId: string };
    relay.truncate(1);
    await relay.sandbox.control("POST", "/events", {
      event: "automation.completed",
      data: { runId },
    });
    await relay.pass(100);
    const event = (await relay.truncated()).find(
      ({ event: kind }) => kind === "automation.completed",
    );
    expect(event?.hydration).toMatchObject({
      state: "given-up",
      reason: "not-readable",
      unknown: null,
    });
    const arrival = at("/holding").find(({ eventId }) => eventId === event?.id);
    expect(JSON.parse(arrival?.body?.toString() ?? "")).toMatchObject({
      relay: { truncated: true, hydration: { state: "given-up", reason: "not-readable" } },
    });
  });
});

test("waits while every poll gets 404, and reads all once base URL and key are right", async () => {
  const relay = await openRelay({ sandbox: { plan: "enterprise" } });
  const messages: MessageRecord[] = [];
  for (let n = 0; n < 15; n += 1) messages.push(await relay.send());
  const other = await startSandbox({ plan: "enterprise", seed: "other" });
  onTestFinished(() => other.close());
  await relay.reload({ accounts: { main: { baseUrl: other.url, apiKey: other.key } } });
  relay.truncate(1);
  for (const message of messages) await relay.move(message, "delivered");
  await relay.pass(10 * minute);
  const waiting = await relay.truncated();
  expect(waiting.some(({ hydration }) => hydration?.state === "waiting")).toBe(true);
  expect(waiting.flatMap(({ hydration }) => hydration?.found ?? [])).toEqual([]);
  expect(await relay.metrics()).toContain('relay_polls_faulty{account="main"} 1');

  await relay.reload({});
  await relay.pass(30 * minute);
  for (const { hydration } of await relay.truncated())
    expect(hydration).toMatchObject({ state: "done", unknown: 0 });
  for (const message of messages) expect(await relay.status(message)).toBe("delivered");
  expect(await relay.metrics()).toContain('relay_polls_faulty{account="main"} 0');
});
