import { expect, test } from "vitest";
import type { Answer } from "../../../../src/sandbox/events/after-try.ts";
import { type ObservedPost, observePosts, type Poster, type PostOrder } from "../../../../src/sandbox/events/poster.ts";

const order: PostOrder = {
  webhook: {
    id: "w1",
    account: "main",
    createdAt: 0,
    url: "http://x.example/hook",
    events: ["*"],
    secret: "s",
    signature: {},
    isEnabled: true,
  },
  eventId: "e1",
  body: Buffer.from("{}"),
  signature: "right",
};

/** A poster whose answers are given one by one, and what was told of it. */
function observed() {
  const waiting: ((answer: Answer) => void)[] = [];
  const told: ObservedPost[] = [];
  const poster: Poster = { post: () => new Promise((resolve) => waiting.push(resolve)), forget() {}, async close() {} };
  const watched = observePosts(poster, (post) => told.push(post));
  const answer = (index: number, status: number) => waiting[index]?.({ kind: "answered", status, retryAfter: undefined });
  return { watched, waiting, answer, told };
}

test("each post is told as it ends: its bytes, its sort and its answer", async () => {
  const { watched, waiting, answer, told } = observed();
  const posts = [
    watched.post(order),
    watched.post({ ...order, signature: "wrong" }),
    watched.post({ ...order, body: Buffer.from("["), isMalformed: true }),
    watched.post(order),
  ];
  answer(0, 200);
  answer(1, 401);
  answer(2, 202);
  waiting[3]?.({ kind: "unanswered", reason: "ECONNREFUSED" });
  expect(await Promise.all(posts)).toHaveLength(4);
  expect(told.map(({ url, eventId, body, sort, answered }) => [url, eventId, body.toString(), sort, answered])).toEqual([
    ["http://x.example/hook", "e1", "{}", "event", 200],
    ["http://x.example/hook", "e1", "{}", "wrongly-signed", 401],
    ["http://x.example/hook", "e1", "[", "malformed", 202],
    ["http://x.example/hook", "e1", "{}", "event", null],
  ]);
});

test("begin and end tell which post was over before another began", async () => {
  const { watched, answer, told } = observed();
  const first = watched.post({ ...order, eventId: "first" });
  const beside = watched.post({ ...order, eventId: "beside" });
  answer(0, 200);
  await first;
  const after = watched.post({ ...order, eventId: "after" });
  answer(2, 200);
  await after;
  answer(1, 200);
  await beside;
  const [one, last, side] = told as [ObservedPost, ObservedPost, ObservedPost];
  expect([one.eventId, last.eventId, side.eventId]).toEqual(["first", "after", "beside"]);
  expect(one.ended).toBeLessThan(last.began);
  expect(side.began).toBeLessThan(one.ended);
  expect(side.ended).toBeGreaterThan(last.ended);
});

test("a post that closing cut off is not told", async () => {
  const { watched, waiting, told } = observed();
  const post = watched.post(order);
  waiting[0]?.({ kind: "cut" });
  expect(await post).toEqual({ kind: "cut" });
  expect(told).toEqual([]);
});
