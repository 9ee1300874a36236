import { expect, test } from "vitest";
import { createReport, postLine } from "../../../src/cli/trigger/output.ts";
import type { Post, PostResult } from "../../../src/sandbox/traffic/answers.ts";

const post = {
  sort: "duplicate",
  body: Buffer.from('{"data":{"status":"sent"}}'),
  subject: {
    id: "e1",
    event: "message.status",
    wamid: "wamid.HBgNNTQ5MTE1NTU1MDAwMRUC",
    runId: null,
  },
} as unknown as Post;
const ok: PostResult = {
  kind: "answered",
  status: 200,
  answer: "accepted",
  said: "{}",
  tries: 1,
  tookMs: 3.4,
};

function onScreen(
  isTerminal: boolean,
  total: number | null,
  { isJson = false, showsWamids = true } = {},
) {
  const printed: string[] = [];
  let now = 0;
  const io = {
    out: (line: string) => void printed.push(`out ${line}`),
    err: (line: string) => void printed.push(`err ${line}`),
    isTerminal,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  const show = createReport({ io, isJson, now: () => now, total, showsWamids });
  return { printed, show, at: (ms: number) => (now = ms) };
}

test("a line has answer, subject and fault", () => {
  expect(postLine(post, ok, null, true)).toBe(
    "200 accepted      message.status sent  e1  wamid.HBgNNTQ5MTE1NTU1MDAwMRUC  duplicate  3 ms",
  );
  const refused: PostResult = {
    kind: "answered",
    status: 404,
    answer: null,
    said: "no",
    tries: 1,
    tookMs: 1,
  };
  expect(postLine(post, refused, "accepted expected, got 404", false)).toMatch(
    /^404 404 .* wamid:[0-9a-f]{12} .*!! accepted expected, got 404 {2}no$/,
  );
});

test("on a terminal, many posts are a bar that ends full", () => {
  const { printed, show, at } = onScreen(true, 60);
  for (let sent = 1; sent <= 60; sent += 1) {
    at(sent * 10);
    show.post(post, ok, sent === 30 ? "wrong" : null);
  }
  expect(printed[0]).toBe(`out [${"#".repeat(5)}${".".repeat(25)}]  16%  10 posts`);
  expect(printed.at(-1)).toBe(
    `out \x1b[1A\x1b[0J[${"#".repeat(30)}] 100%  60 posts  100/s  1 unexpected`,
  );
  expect(printed.length).toBeLessThan(9);
});

test("on a terminal, few posts are lines, and so are the first of an unknown number", () => {
  const few = onScreen(true, 3);
  for (let sent = 0; sent < 3; sent += 1) few.show.post(post, ok, null);
  expect(few.printed).toHaveLength(3);
  const unknown = onScreen(true, null);
  for (let sent = 0; sent < 60; sent += 1) unknown.show.post(post, ok, null);
  expect(unknown.printed).toHaveLength(50);
  unknown.at(1_000);
  unknown.show.post(post, ok, null);
  expect(unknown.printed.at(-1)).toBe("out 61 posts  61/s");
});

test("the outcome counts everything and keeps the first of it", () => {
  const { show: notes } = onScreen(false, null);
  for (let sent = 0; sent < 1200; sent += 1) notes.post(post, ok, sent < 150 ? "wrong" : null);
  notes.post(post, { kind: "unanswered", error: "ECONNRESET", tries: 1, tookMs: 1 }, "no answer");
  const { posts, answers, unexpected, faults, events, eventsLeftOut } = notes.outcome();
  expect([posts, answers, unexpected]).toEqual([1201, { accepted: 1200, unanswered: 1 }, 151]);
  expect([faults.length, events.length, eventsLeftOut]).toEqual([100, 1000, 201]);
  expect(faults[0]).toBe("e1: wrong");
});

test("the outcome masks the wamids of a fixture that is posted as it is, as its lines do", () => {
  const { show } = onScreen(false, null, { showsWamids: false });
  show.post(post, ok, null);
  expect(show.outcome().events[0]?.wamid).toMatch(/^wamid:[0-9a-f]{12}$/);
});
