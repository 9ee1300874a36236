import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { parseEnvelope } from "../../../../src/model/envelope.ts";
import type { EventFaults } from "../../../../src/sandbox/faults.ts";
import { type SeenRequest, startTestServer } from "../test-server.ts";
import { createStage, secret } from "./stage.ts";

/** What one request was: by hand from its bytes. */
function read({ headers, body }: SeenRequest) {
  const isRight =
    headers["x-acme-signature"] === createHmac("sha256", secret).update(body).digest("hex");
  const parsed = parseEnvelope(body);
  const id = parsed.ok ? parsed.envelope.id : null;
  const data = parsed.ok
    ? (parsed.envelope.data as { status?: string; wamid?: string; truncated?: boolean })
    : {};
  return { ...data, isRight, id };
}

/**
 * `messages` times sent, delivered, read against a receiver that takes what is rightly signed; as
 * it arrived.
 */
async function run(faults: Partial<EventFaults>, messages: number, seed = "1") {
  const server = await startTestServer((response, request) =>
    response.writeHead(read(request).isRight ? 200 : 401).end(),
  );
  await using stage = createStage({ faults, seed, speed: 100, plan: "enterprise" });
  stage.addWebhook(server.url);
  for (const status of ["sent", "delivered", "read"] as const) {
    for (let number = 0; number < messages; number += 1) stage.status(`wamid.${number}`, status);
  }
  await stage.posting.idle();
  return {
    seen: server.seen.map(read),
    deliveries: stage.deliveries().map(({ status, reason, tries }) => ({ status, reason, tries })),
    counted: stage.account.usage.webhookDeliveries,
    events: stage.world.events.list("main").map(({ body }) => JSON.parse(body)),
  };
}
const delivered = { status: "delivered", reason: null, tries: 1 };

test("drop: never posted, and recorded with its reason", async () => {
  const { seen, deliveries } = await run({ drop: 1 }, 5);
  expect(seen).toEqual([]);
  expect(deliveries).toEqual(
    Array.from({ length: 15 }, () => ({ status: "dropped", reason: "fault: drop", tries: 0 })),
  );
});

test("truncate: whatever the size; what is remembered of the event stays whole", async () => {
  const { seen, events } = await run({ truncate: 1 }, 5);
  expect(seen).toHaveLength(15);
  for (const { truncated, isRight } of seen) expect([truncated, isRight]).toEqual([true, true]);
  for (const { data } of events) expect(data).toHaveProperty("wamid");
});

test("malformed: one rightly signed body that is no envelope beside each", async () => {
  const { seen, deliveries, events } = await run({ malformed: 1 }, 20);
  expect(seen).toHaveLength(120);
  expect(seen.filter(({ id }) => id === null)).toHaveLength(60);
  expect(new Set(seen.map(({ id }) => id))).toEqual(new Set([null, ...events.map(({ id }) => id)]));
  expect(seen.every(({ isRight }) => isRight)).toBe(true);
  expect(deliveries).toEqual(Array.from({ length: 60 }, () => delivered));
});

test("shares hold over 600 events, and the same seed spoils the same ones", async () => {
  const shares = {
    duplicate: 0.15,
    drop: 0.1,
    truncate: 0.2,
    wrongSignature: 0.1,
    malformed: 0.15,
    reorder: 0.2,
  };
  const one = await run(shares, 200, "a seed");
  const { seen, deliveries } = one;
  const posted = deliveries.filter(({ status }) => status === "delivered").length;
  /** Within four standard deviations. */
  const near = (what: string, count: number, of: number, share: number) =>
    expect(Math.abs(count - of * share), `${what}: ${count} of ${of}`).toBeLessThan(
      4 * Math.sqrt(of * share * (1 - share)),
    );
  expect(deliveries.every(({ status }) => status === "delivered" || status === "dropped")).toBe(
    true,
  );
  near("dropped", deliveries.filter(({ status }) => status === "dropped").length, 600, shares.drop);
  near("malformed", seen.filter(({ id }) => id === null).length, posted, shares.malformed);
  near(
    "wrongly signed",
    seen.filter(({ isRight }) => !isRight).length,
    posted,
    shares.wrongSignature,
  );
  const right = seen.filter(({ id, isRight }) => isRight && id !== null);
  near("duplicated", right.length - posted, posted, shares.duplicate);
  near(
    "truncated",
    new Set(right.filter(({ truncated }) => truncated).map(({ id }) => id)).size,
    posted,
    shares.truncate,
  );

  const other = await run(shares, 200, "a seed");
  const counts = ({ seen, deliveries }: typeof one) => ({
    statuses: deliveries.map(({ status }) => status),
    bodies: seen
      .map(({ id, isRight, truncated }) => `${id === null ? "malformed" : truncated} ${isRight}`)
      .sort(),
  });
  expect(counts(other)).toEqual(counts(one));
});

test("duplicate: each event arrives twice with one id, and counts once", async () => {
  const { seen, deliveries, counted, events } = await run({ duplicate: 1 }, 20);
  expect(deliveries).toEqual(Array.from({ length: 60 }, () => delivered));
  expect(counted).toBe(60);
  expect(seen.map(({ id }) => id).sort()).toEqual(events.flatMap(({ id }) => [id, id]).sort());
});
