// Slow: it polls 4,000 messages within the caps.
import { expect, test } from "vitest";
import type { MessageRecord } from "../../../src/sandbox/world/records.ts";
import { minute, openRelay } from "./open-relay.ts";

test("reads 4,000 open messages within the share, latest first, without delaying sends", {
  tags: ["slow"],
}, async () => {
  const relay = await openRelay({ sandbox: { plan: "enterprise" }, account: { plan: "enterprise" } });
  // They stay pending for ever, so that what is learned is what is moved here.
  const phones = Array.from({ length: 4_000 }, (_, n) => `+54911${String(n).padStart(4, "0")}0002`);
  expect((await relay.sandbox.control("POST", "/campaigns", { name: "many", phones, perSecond: 1_000 })).status).toBe(201);
  await relay.pass(5_000, 500);
  const messages = relay.sandbox.messages();
  expect(messages).toHaveLength(4_000);
  for (let n = 0; n < messages.length; n += 1_000) {
    await relay.track(messages.slice(n, n + 1_000));
    await relay.pass(1_000);
  }

  const [oldest, middle, latest] = [messages[0], messages[2_000], messages.at(-1)] as [MessageRecord, MessageRecord, MessageRecord];
  relay.truncate(1);
  for (const message of [oldest, middle, latest]) await relay.move(message, "sent");
  await relay.pass(minute, 200);
  expect(await relay.status(latest)).toBe("sent");
  expect(await relay.status(middle)).toBeNull();
  const [event] = await relay.truncated();
  expect(event?.hydration).toMatchObject({ state: "waiting", foundCount: 1, unknown: null });
  expect(event?.hydration?.polled).toBeGreaterThan(300);

  const sending = relay.post("/v1/messages", { to: "+5491155550002", template: { id: relay.sandbox.templates()[0]?.id } });
  await relay.pass(2_000, 200);
  expect((await sending).status).toBe(201);

  await relay.pass(12 * minute, 500);
  const pass = relay.log().find(({ truncated }) => truncated === 3);
  expect(pass).toMatchObject({ polled: 4_000, changed: 3, missing: 0, unknown: 0 });
  // At 405 polls a minute; the sandbox saw no more in any minute than the share of 600.
  expect(pass?.["tookMs"]).toBeGreaterThan(9 * minute);
  expect(pass?.["tookMs"]).toBeLessThan(11 * minute);
  const { perMinute } = await relay.usage();
  expect(perMinute.refused).toBe(0);
  expect(perMinute.requests.peak).toBeLessThanOrEqual(600);
  expect(perMinute.requests.peak).toBeGreaterThan(350);

  expect(relay.polled).toHaveLength(4_000);
  // Calls leave eight at a time, and may overtake each other by that much.
  const place = new Map(messages.toReversed().map(({ id }, n) => [id, n]));
  for (const [n, id] of relay.polled.entries()) expect(Math.abs((place.get(id) as number) - n)).toBeLessThan(8);
  for (const { hydration } of await relay.truncated()) expect(hydration).toMatchObject({ state: "done", foundCount: 3, unknown: 0 });
});
