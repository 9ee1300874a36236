import { expect, test } from "vitest";
import type { Answer } from "../../../../src/sandbox/events/after-try.ts";
import { settled } from "../../../harness/manual-clock.ts";
import { createSubject, failing, ok } from "./posting-subject.ts";

test("a failing delivery is tried after 1 s, 5 s, 30 s, 2 min and 10 min, then has failed", async () => {
  const { clock, start, posting, posts, add, answerWith } = createSubject();
  answerWith(() => failing);
  const delivery = await add("e1");
  expect(delivery).toMatchObject({ status: "waiting", tries: 1, answered: 500, reason: "answered 500", nextAt: start + 1_000 });
  expect(posting.waiting()).toBe(1);
  await clock.advance(999);
  expect(posts).toHaveLength(1);
  await clock.advance(3_600_000);
  expect(posts.map(({ at }) => at)).toEqual([0, 1_000, 6_000, 36_000, 156_000, 756_000]);
  expect(delivery).toMatchObject({ status: "failed", tries: 6, reason: "answered 500; given up after 6 tries" });
  expect(posting.waiting()).toBe(0);
});

test("the speed divides the waits; a later success ends them", async () => {
  const { clock, posts, add, answerWith } = createSubject({ speed: 10 });
  answerWith(() => (posts.length < 3 ? { kind: "unanswered", reason: "ECONNRESET" } : ok));
  const delivery = await add("e1");
  expect(delivery).toMatchObject({ answered: null, reason: "ECONNRESET" });
  await clock.advance(3_600_000);
  expect(posts.map(({ at }) => at)).toEqual([0, 100, 600]);
  expect(delivery).toMatchObject({ status: "delivered", tries: 3, answered: 200, reason: null });
});

test("a later event of a message waits for the former's first try to end, and not for its success", async () => {
  const { posting, add, answerWith, whats, clock } = createSubject();
  const ends: ((answer: Answer) => void)[] = [];
  answerWith(() => new Promise((resolve) => ends.push(resolve)));
  for (const eventId of ["e1", "e2", "e3"]) await add(eventId, "wamid.A");
  await add("e4", "wamid.B");
  await add("e5", null);
  expect(whats()).toEqual(["e1", "e4", "e5"]);
  ends[0]?.(failing);
  await settled();
  expect(whats()).toEqual(["e1", "e4", "e5", "e2"]);
  answerWith(() => ok);
  for (const end of ends) end(ok);
  await clock.advance(1_000);
  expect(whats()).toEqual(["e1", "e4", "e5", "e2", "e3", "e1"]);
  expect(posting.waiting()).toBe(0);
});

test("no more posts at once than allowed", async () => {
  const { add, answerWith, posts } = createSubject();
  const ends: ((answer: Answer) => void)[] = [];
  answerWith(() => new Promise((resolve) => ends.push(resolve)));
  for (let number = 0; number < 10; number += 1) await add(`e${number}`);
  expect(posts).toHaveLength(4);
  ends[2]?.(ok);
  await settled();
  expect(posts).toHaveLength(5);
});

test.each(["deleted", "disabled"] as const)(
  "what waits for a webhook that was %s is dropped at once when told, else at its turn",
  async (how) => {
    for (const isTold of [true, false]) {
      const { world, posting, clock, posts, add, answerWith } = createSubject();
      answerWith(() => failing);
      const delivery = await add("e1");
      const idle = posting.idle();
      const webhook = world.webhooks.get("w1");
      if (webhook === undefined) throw new Error("no webhook");
      if (how === "deleted") world.webhooks.delete("w1");
      else world.webhooks.put(Object.assign(webhook, { isEnabled: false }));
      if (isTold) posting.webhookChanged("w1");
      else await clock.advance(1_000);
      expect(delivery).toMatchObject({ status: "dropped", reason: `webhook ${how}`, tries: 1 });
      await idle;
      expect(posting.waiting()).toBe(0);
      // Enabled again: what was dropped stays so.
      world.webhooks.put({ ...webhook, isEnabled: true });
      await clock.advance(3_600_000);
      expect(posts).toHaveLength(1);
      answerWith(() => ok);
      await add("e2");
      expect(posts).toHaveLength(2);
    }
  },
);

test("what is under way while its webhook is deleted ends with its answer, and is not tried again", async () => {
  for (const [answer, expected] of [
    [ok, { status: "delivered" }],
    [failing, { status: "dropped", reason: "webhook deleted" }],
  ] as const) {
    const { world, posting, add, answerWith, clock, posts } = createSubject();
    let end = (_: Answer): void => {};
    answerWith(() => new Promise((resolve) => (end = resolve)));
    const delivery = await add("e1");
    world.webhooks.delete("w1");
    posting.webhookChanged("w1");
    expect(delivery.status).toBe("waiting");
    end(answer);
    await settled();
    expect(delivery).toMatchObject(expected);
    await clock.advance(3_600_000);
    expect(posts).toHaveLength(1);
    expect(posting.waiting()).toBe(0);
  }
});

test("an event that the world has forgotten is not posted", async () => {
  const { world, add, answerWith, clock, posts, posting } = createSubject();
  answerWith(() => failing);
  const delivery = await add("e1");
  world.events.delete("e1");
  world.deliveries.delete(delivery.id);
  await clock.advance(1_000);
  expect(posts).toHaveLength(1);
  expect(posting.waiting()).toBe(0);
  expect(world.deliveries.size).toBe(0);
});

test("a URL has room for so many waiting", async () => {
  const { posting, add, answerWith } = createSubject({ mostWaiting: 2 });
  answerWith(() => failing);
  await add("e1");
  expect(posting.hasRoom("w1")).toBe(true);
  await add("e2");
  expect(posting.hasRoom("w1")).toBe(false);
  expect(posting.hasRoom("w2")).toBe(true);
});

test("fault delay: held back, and overtaken by its own message", async () => {
  const { clock, posts, add, posting } = createSubject({ speed: 10 });
  await add("e1", "wamid.A", { delayMs: 5_000 });
  await add("e2", "wamid.A");
  expect(posting.waiting()).toBe(1);
  await clock.advance(10_000);
  expect(posts).toEqual([
    { at: 0, what: "e2" },
    { at: 5_000, what: "e1" },
  ]);
});

test("fault reorder: held back until a later event of the same message has passed, else for ten seconds", async () => {
  const { clock, posts, add } = createSubject();
  await add("e1", "wamid.A", { reorder: true });
  await add("e2", "wamid.B");
  await add("e3", null, { reorder: true });
  await clock.advance(1_000);
  await add("e4", "wamid.A", { reorder: true });
  await clock.advance(20_000);
  expect(posts).toEqual([
    { at: 0, what: "e2" },
    { at: 1_000, what: "e4" },
    { at: 1_000, what: "e1" },
    { at: 10_000, what: "e3" },
  ]);
});

test("fault reorder: an earlier event that ends meanwhile has overtaken nobody", async () => {
  const { add, answerWith, whats } = createSubject();
  let end = (_: Answer): void => {};
  answerWith(() => new Promise((resolve) => (end = resolve)));
  await add("e1", "wamid.A");
  answerWith(() => ok);
  await add("e2", "wamid.A", { reorder: true });
  end(ok);
  await settled();
  expect(whats()).toEqual(["e1"]);
  await add("e3", "wamid.A");
  expect(whats()).toEqual(["e1", "e3", "e2"]);
});

test("fault duplicate: one copy, side by side or later; idle waits for it", async () => {
  const { clock, posts, add, posting } = createSubject({ speed: 10 });
  const now = await add("e1", "wamid.A", { duplicateAfterMs: 0 });
  const later = await add("e2", "wamid.A", { duplicateAfterMs: 400 });
  expect(posting.waiting()).toBe(1);
  let isIdle = false;
  const idle = posting.idle().then(() => (isIdle = true));
  await settled();
  expect(isIdle).toBe(false);
  await clock.advance(40);
  await idle;
  expect(posts).toEqual([
    { at: 0, what: "e1" },
    { at: 0, what: "e1" },
    { at: 0, what: "e2" },
    { at: 40, what: "e2" },
  ]);
  expect([now.tries, later.tries]).toEqual([1, 1]);
});

test("fault wrongSignature: once wrong, then right, whatever the answer", async () => {
  const { add, whats, answerWith } = createSubject();
  answerWith(({ signature }) => (signature === "wrong" ? { kind: "answered", status: 401, retryAfter: undefined } : ok));
  const delivery = await add("e1", null, { wrongSignature: true });
  expect(whats()).toEqual(["e1 wrong", "e1"]);
  expect(delivery).toMatchObject({ status: "delivered", tries: 1, answered: 200 });
});

test("faults are met once: a retry is not spoilt again, but for truncation", async () => {
  const { add, clock, answerWith, whats } = createSubject();
  const bodies: string[] = [];
  let fails = 2;
  answerWith(({ body }) => {
    bodies.push(body.toString("utf8"));
    return fails-- > 0 ? failing : ok;
  });
  await add("e1", null, { wrongSignature: true, truncate: true });
  await clock.advance(1_000);
  expect(whats()).toEqual(["e1 wrong", "e1", "e1"]);
  fails = 1;
  await add("e2", null, { truncate: true });
  await clock.advance(1_000);
  expect(whats().slice(3)).toEqual(["e2", "e2"]);
  for (const body of bodies) expect(JSON.parse(body).data).toEqual({ truncated: true, id: null, size: 2 });
});

test("close leaves what is under way waiting in the records, and another posting takes it up in order", async () => {
  const subject = createSubject();
  const { posting, create, answerWith, add, record, start, clock, world, whats } = subject;
  answerWith(() => new Promise(() => {}));
  const first = await add("e1", "wamid.A");
  const second = await add("e2", "wamid.A");
  const idle = posting.idle();
  await posting.close();
  await idle;
  expect(first).toMatchObject({ status: "waiting", tries: 0 });
  await add("e3", "wamid.A");
  expect(whats()).toEqual(["e1"]);

  record("e4", "wamid.B", { tries: 2, nextAt: start + 5_000 });
  record("e5", "wamid.B", { status: "dropped" });
  world.events.delete("e2");
  answerWith(() => ok);
  const again = create();
  again.resume();
  await settled();
  expect(whats()).toEqual(["e1", "e1", "e3"]);
  expect(second).toMatchObject({ status: "dropped", reason: "event forgotten" });
  expect(again.waiting()).toBe(1);
  await clock.advance(5_000);
  expect(whats()).toEqual(["e1", "e1", "e3", "e4"]);
  expect(again.waiting()).toBe(0);
});

test("a retry taken up after a restart does not stand in its message's line", async () => {
  const { posting, answerWith, record, whats } = createSubject();
  answerWith(() => new Promise(() => {}));
  record("e1", "wamid.A");
  record("e2", "wamid.A", { tries: 1 });
  record("e3", "wamid.A");
  posting.resume();
  await settled();
  expect(whats()).toEqual(["e1", "e2"]);
});
