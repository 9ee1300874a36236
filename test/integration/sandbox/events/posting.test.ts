import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import type { ObservedPost } from "../../../../src/sandbox/start-sandbox.ts";
import { createManualClock, settled } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { startTestServer } from "../test-server.ts";
import { createStage, type StageOptions } from "./stage.ts";

/**
 * A receiver that answers with the statuses given, then 200; null: not until `answer`. The
 * sandbox's time stands still.
 */
async function open(answers: readonly (number | null)[] = [], options: StageOptions = {}) {
  const open: ServerResponse[] = [];
  const server = await startTestServer((response, _, count) => {
    const status = answers[count - 1];
    if (status === null) open.push(response);
    else response.writeHead(status ?? 200).end();
  });
  const clock = createManualClock();
  const stage = createStage({ clock, speed: 1, ...options });
  return {
    ...stage,
    clock,
    webhook: stage.addWebhook(server.url),
    delivery: (place = 0) => stage.deliveries()[place],
    seen: () =>
      server.seen.map(({ body }) => Object.values(JSON.parse(body.toString()).data).join(" ")),
    async arrived(count: number) {
      await until(`${count} posts`, () => server.seen.length >= count);
      await settled();
      expect(server.seen).toHaveLength(count);
    },
    tried: (count: number) => until("the answer", () => stage.deliveries()[0]?.tries === count),
    answer: (status: number) => open.shift()?.writeHead(status).end(),
    [Symbol.asyncDispose]: () => stage.posting.close(),
  };
}

test.each(["deleted", "disabled"])(
  "what waits for a webhook that was %s is dropped at once, and stays so",
  async (how) => {
    await using stage = await open([500]);
    const { webhook, world, posting } = stage;
    stage.status("A", "sent");
    await stage.tried(1);
    const idle = posting.idle();
    if (how === "deleted") world.webhooks.delete(webhook.id);
    else world.webhooks.put(Object.assign(webhook, { isEnabled: false }));
    posting.webhookChanged(webhook.id);
    expect(stage.delivery()).toMatchObject({
      status: "dropped",
      reason: `webhook ${how}`,
      tries: 1,
    });
    await idle;
    world.webhooks.put(Object.assign(webhook, { isEnabled: true }));
    await stage.clock.advance(3_600_000);
    stage.status("A", "delivered");
    await stage.arrived(2);
    expect(stage.seen()).toEqual(["A sent", "A delivered"]);
  },
);

test.each([
  [200, { status: "delivered" }],
  [500, { status: "dropped", reason: "webhook deleted" }],
])(
  "what is in flight while its webhook is deleted ends with its answer %i, and is not tried again",
  async (status, expected) => {
    await using stage = await open([null]);
    stage.status("A", "sent");
    await stage.arrived(1);
    stage.world.webhooks.delete(stage.webhook.id);
    stage.posting.webhookChanged(stage.webhook.id);
    expect(stage.delivery()?.status).toBe("waiting");
    stage.answer(status);
    await stage.posting.idle();
    expect(stage.delivery()).toMatchObject(expected);
    await stage.clock.advance(3_600_000);
    await stage.arrived(1);
  },
);

test("an event that the world has forgotten is not posted", async () => {
  await using stage = await open([500]);
  stage.status("A", "sent");
  await stage.tried(1);
  for (const table of [stage.world.events, stage.world.deliveries])
    for (const { id } of table.all()) table.delete(id);
  await stage.clock.advance(1_000);
  await stage.posting.idle();
  await stage.arrived(1);
  expect(stage.world.deliveries.size).toBe(0);
});

test("a URL has room for so many; a plan without webhooks stores events and counts nothing", async () => {
  await using stage = await open([null, null], { mostWaiting: 2 });
  for (const wamid of ["A", "B", "C"]) stage.status(wamid, "sent");
  expect(stage.deliveries().map(({ status, reason }) => [status, reason])).toEqual([
    ["waiting", null],
    ["waiting", null],
    ["dropped", "too many deliveries wait for this URL"],
  ]);
  stage.account.plan = "growth";
  const used = stage.account.usage.webhookDeliveries;
  stage.status("D", "sent");
  expect([
    stage.world.events.size,
    stage.deliveries().length,
    stage.account.usage.webhookDeliveries,
  ]).toEqual([4, 3, used]);
});

test("what had not ended is taken up after a restart, first tries in line, retries beside it", async () => {
  await using first = await open([500, null]);
  first.status("A", "sent");
  await first.tried(1);
  for (const status of ["delivered", "read"] as const) first.status("A", status);
  first.status("B", "sent");
  first.status("B", "delivered");
  first.world.events.delete(first.world.events.list("main").at(-1)?.id ?? "");
  await first.arrived(3);
  const idle = first.posting.idle();
  await first.posting.close();
  await idle;
  expect(
    first
      .deliveries()
      .map(({ status, tries }) => `${status} ${tries}`)
      .slice(0, 3),
  ).toEqual(["waiting 1", "waiting 0", "waiting 0"]);

  await using second = await open([null], { world: first.world, clock: first.clock, seed: "2" });
  Object.assign(first.webhook, { url: second.webhook.url });
  second.world.webhooks.delete(second.webhook.id);
  second.posting.resume();
  await second.arrived(1);
  await first.clock.advance(1_000);
  await second.arrived(2);
  expect(second.seen()).toEqual(["A delivered", "A sent"]);
  second.answer(200);
  await second.posting.idle();
  expect(second.seen()).toEqual(["A delivered", "A sent", "A read"]);
  expect(second.deliveries().map(({ status }) => status)).toEqual([
    "delivered",
    "delivered",
    "delivered",
    "delivered",
    "dropped",
  ]);
  expect(second.delivery(4)).toMatchObject({ reason: "event forgotten" });
});

test("fault delay: held back, and overtaken by its own message", async () => {
  await using stage = await open([], { speed: 10, faults: { delay: 1, delayMs: 5_000 } });
  stage.status("A", "sent");
  stage.setFaults({});
  stage.status("A", "delivered");
  await stage.arrived(1);
  await stage.clock.advance(4_999);
  expect(stage.posting.waiting()).toBe(1);
  await stage.clock.advance(1);
  await stage.posting.idle();
  expect(stage.seen()).toEqual(["A delivered", "A sent"]);
});

test("fault reorder: held back until a later event of the same message has passed, else for ten seconds", async () => {
  await using stage = await open([], { faults: { reorder: 1 } });
  stage.status("A", "sent");
  stage.publisher.publish("main", "custom", { of: "none" });
  stage.setFaults({});
  stage.status("B", "sent");
  await stage.arrived(1);
  await stage.clock.advance(1_000);
  stage.setFaults({ reorder: 1 });
  stage.status("A", "delivered");
  await stage.arrived(3);
  await stage.clock.advance(8_999);
  await stage.arrived(3);
  await stage.clock.advance(1);
  await stage.posting.idle();
  expect(stage.seen()).toEqual(["B sent", "A delivered", "A sent", "none"]);
});

test("fault reorder: an earlier event that ends meanwhile has overtaken nobody", async () => {
  await using stage = await open([null]);
  stage.status("A", "sent");
  await stage.arrived(1);
  stage.setFaults({ reorder: 1 });
  stage.status("A", "delivered");
  stage.answer(200);
  await until("the first has ended", () => stage.posting.waiting() === 1);
  await stage.arrived(1);
  stage.setFaults({});
  stage.status("A", "read");
  await stage.posting.idle();
  expect(stage.seen()).toEqual(["A sent", "A read", "A delivered"]);
});

test("faults are met once, a retry is right; every post is observed, with its order", async () => {
  const posts: ObservedPost[] = [];
  await using stage = await open([401, 500], {
    faults: { wrongSignature: 1, truncate: 1 },
    onPost: (post) => posts.push(post),
  });
  stage.status("A", "sent");
  await stage.tried(1);
  await stage.clock.advance(1_000);
  await stage.posting.idle();
  expect(posts.map(({ sort, answered, url }) => [sort, answered, url])).toEqual([
    ["wrongly-signed", 401, stage.webhook.url],
    ["event", 500, stage.webhook.url],
    ["event", 200, stage.webhook.url],
  ]);
  for (const { body } of posts)
    expect(JSON.parse(body.toString()).data).toMatchObject({ truncated: true, id: null });
  stage.setFaults({ malformed: 1 });
  stage.status("A", "read");
  await stage.posting.idle();
  expect(
    posts
      .slice(3)
      .map(({ sort }) => sort)
      .sort(),
  ).toEqual(["event", "malformed"]);
});

test("began and ended tell which post was over before another began; what closing cuts off is not observed", async () => {
  const posts: ObservedPost[] = [];
  await using stage = await open([200, null, 200, null], { onPost: (post) => posts.push(post) });
  stage.status("A", "sent");
  await stage.posting.idle();
  stage.status("B", "sent");
  await stage.arrived(2);
  stage.status("C", "sent");
  await until("C is over", () => posts.length === 2);
  stage.answer(200);
  await stage.posting.idle();
  const [a, c, b] = posts as [ObservedPost, ObservedPost, ObservedPost];
  expect([a, c, b].map(({ body }) => JSON.parse(body.toString()).data.wamid)).toEqual([
    "A",
    "C",
    "B",
  ]);
  expect(a.ended).toBeLessThan(b.began);
  expect(b.began).toBeLessThan(c.began);
  expect(c.ended).toBeLessThan(b.ended);
  stage.status("D", "sent");
  await stage.arrived(4);
  await stage.posting.close();
  expect(posts).toHaveLength(3);
});
