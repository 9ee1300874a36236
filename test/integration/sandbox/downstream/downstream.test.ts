import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Downstream, startDownstream } from "../../../../src/sandbox/downstream.ts";
import { until } from "../../../harness/until.ts";

const secret = `whsec_${Buffer.from("thirty-two bytes of a shared key").toString("base64")}`;
let downstream: Downstream;
beforeEach(async () => {
  downstream = await startDownstream({ secrets: { "/signed": secret, "/plain": "just text" } });
});
afterEach(() => downstream.close());

const body = (id: string) =>
  JSON.stringify({ id, event: "message.status", data: { wamid: "wamid.x", status: "sent" } });
const deliver = (
  deliveryId: string,
  path = "/all",
  headers: Record<string, string> = {},
  text = body("e1"),
) =>
  fetch(downstream.url + path, {
    method: "POST",
    headers: { "webhook-id": deliveryId, ...headers },
    body: text,
  });
test("keeps what arrived, in order, and tells attempts, routes and duplicates apart", async () => {
  await deliver("d1");
  await deliver("d2", "/other?x=1");
  await deliver("d1");
  expect(
    downstream.arrivals.map(({ number, path, deliveryId, attempt, answered }) => [
      number,
      path,
      deliveryId,
      attempt,
      answered,
    ]),
  ).toEqual([
    [1, "/all", "d1", 1, 200],
    [2, "/other", "d2", 1, 200],
    [3, "/all", "d1", 2, 200],
  ]);
  expect(downstream.arrivals[0]).toMatchObject({
    eventId: "e1",
    wamid: "wamid.x",
    signature: "unchecked",
  });
  expect(downstream.arrivals[0]?.body?.toString()).toBe(body("e1"));
  expect(downstream.counts()).toEqual({
    arrivals: 3,
    taken: 2,
    duplicates: 1,
    failed: 0,
    badSignatures: 0,
    withoutId: 0,
  });
  expect(downstream.counts("/other")).toMatchObject({ arrivals: 1, taken: 1 });
  expect(downstream.counts("/never")).toMatchObject({ arrivals: 0 });
});

test("fails as told, on one path or all, until it recovers; an attempt after failures is no duplicate", async () => {
  downstream.fail({ status: 503, retryAfterSeconds: 7 }, "/all");
  const refused = await deliver("d1");
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "7"]);
  expect((await deliver("d2", "/other")).status).toBe(200);
  downstream.fail("reset");
  await expect(deliver("d3", "/other")).rejects.toThrow();
  downstream.recover();
  expect((await deliver("d1")).status).toBe(200);
  expect(downstream.counts("/all")).toMatchObject({
    arrivals: 2,
    taken: 1,
    duplicates: 0,
    failed: 1,
  });
  expect(downstream.arrivals.map(({ answered }) => answered)).toEqual([503, 200, null, 200]);
});

test("hangs until it recovers, and can be closed while it hangs", async () => {
  downstream.fail("hang");
  const hung = deliver("d1").then(
    () => "answered",
    () => "cut",
  );
  await until("it arrives", () => downstream.counts().arrivals === 1);
  downstream.recover();
  expect(await hung).toBe("cut");
  expect((await deliver("d1")).status).toBe(200);
  downstream.fail("hang");
  const again = deliver("d2").catch(() => "cut");
  await until("all arrive", () => downstream.counts().arrivals === 3);
  await downstream.close();
  expect(await again).toBe("cut");
});

test("checks Standard Webhooks signatures as the reference library makes them", async () => {
  const at = new Date();
  const signed = (id: string, key: Webhook, text = body("e1")) => ({
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": key.sign(id, at, text),
  });
  await deliver("d1", "/signed", signed("d1", new Webhook(secret)));
  await deliver("d2", "/signed", signed("d1", new Webhook(secret)));
  await deliver("d3", "/signed");
  await deliver("d4", "/plain", signed("d4", new Webhook("just text", { format: "raw" })));
  await deliver("d5", "/signed", signed("d5", new Webhook(secret)), `${body("e1")} `);
  expect(downstream.arrivals.map(({ signature }) => signature)).toEqual([
    "valid",
    "invalid",
    "absent",
    "valid",
    "invalid",
  ]);
  expect(downstream.counts().badSignatures).toBe(3);
});

test("takes bodies that are no events, and keeps nothing but counts when told so", async () => {
  await deliver("d1", "/", {}, "not json");
  await deliver("d2", "/", {}, "null");
  expect(downstream.arrivals.map(({ eventId, wamid }) => [eventId, wamid])).toEqual([
    [null, null],
    [null, null],
  ]);
  await downstream.close();
  downstream = await startDownstream({ keepBodies: false });
  await deliver("d1");
  expect(downstream.arrivals[0]?.body).toBeNull();
  await downstream.close();
  downstream = await startDownstream({ keepArrivals: false });
  await deliver("d1");
  await deliver("d1");
  expect(downstream.arrivals).toEqual([]);
  expect(downstream.counts()).toMatchObject({ arrivals: 2, taken: 1, duplicates: 1 });
});
