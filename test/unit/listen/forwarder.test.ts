import { expect, test } from "vitest";
import { createForwarder, type Targets } from "../../../src/cli/listen/forward.ts";
import { createCursor } from "../../../src/cli/listen/relay.ts";
import type { PostOutcome } from "../../../src/cli/listen/screen.ts";
import type { ListenedEvent } from "../../../src/cli/listen/wire.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

const eventOf = (seq: number): ListenedEvent =>
  ({ seq, id: `e${seq}`, source: "main" }) as ListenedEvent;
const down: PostOutcome = { taken: false, status: null, error: "refused", tookMs: 1 };
const answered = (status: number): PostOutcome => ({
  taken: status < 300,
  status,
  error: null,
  tookMs: 1,
});

function start(answers: (PostOutcome | Promise<PostOutcome>)[], maxAttempts: number | null = null) {
  const clock = createManualClock();
  const posts: { id: string; at: number; attempt: number }[] = [];
  const told: string[] = [];
  const begunAt = clock.now();
  const quit = new AbortController();
  const targets: Targets = {
    urlOf: () => "http://localhost:3000/",
    sources: null,
    async post(_url, { id }, attempt) {
      posts.push({ id, at: clock.now() - begunAt, attempt });
      return answers.shift() ?? answered(200);
    },
    close: async () => {},
  };
  const forwarder = createForwarder({
    targets,
    maxAttempts,
    clock,
    random: () => 1,
    screen: {
      event: ({ id }) => void told.push(`--> ${id}`),
      answer: ({ id }, _url, { status }, again) =>
        void told.push(`<-- ${status} ${id}${again ? " again" : ""}`),
      skipped: ({ id }) => void told.push(`skipped ${id}`),
    },
    quit: quit.signal,
  });
  return { clock, posts, told, forwarder, quit };
}

test("posts until the event is accepted, with growing pauses, and reports a repeated failure once", async () => {
  const { clock, posts, told, forwarder } = start([
    down,
    down,
    answered(500),
    answered(500),
    down,
    answered(204),
  ]);
  let isTaken = false;
  void forwarder.take(eventOf(1)).then(() => {
    isTaken = true;
  });
  await clock.advance(15_000);
  expect(isTaken).toBe(true);
  expect(posts.map(({ at }) => at)).toEqual([0, 500, 1_500, 3_500, 7_500, 12_500]);
  expect(posts.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(told).toEqual([
    "--> e1",
    "<-- null e1 again",
    "<-- 500 e1 again",
    "<-- null e1 again",
    "<-- 204 e1",
  ]);
});

test("skips an event after --max-attempts refusals; a server that is down does not count", async () => {
  const { clock, posts, told, forwarder } = start([down, answered(422), down, answered(422)], 2);
  void forwarder.take(eventOf(1));
  await clock.advance(60_000);
  expect(posts.length).toBe(4);
  expect(told.slice(-2)).toEqual(["<-- 422 e1", "skipped e1"]);
});

test("at the end a post in flight may complete; a waiting event is given up", async () => {
  const late = Promise.withResolvers<PostOutcome>();
  const underWay = start([late.promise]);
  const taken = underWay.forwarder.take(eventOf(1));
  await settled();
  underWay.quit.abort();
  late.resolve(answered(200));
  await taken;

  const waiting = start([down]);
  const given = waiting.forwarder.take(eventOf(1));
  await settled();
  waiting.quit.abort();
  await expect(given).rejects.toThrow("aborted");
  expect(waiting.posts.length).toBe(1);
});

test("stores the newest cursor, one request at a time, until the relay has it", async () => {
  const told: number[] = [];
  const waits: number[] = [];
  let first = Promise.withResolvers<void>();
  let wake = () => {};
  const over = new AbortController();
  const cursor = createCursor({
    over: over.signal,
    store(seq) {
      told.push(seq);
      return first.promise;
    },
    wait: (ms) => {
      waits.push(ms);
      return new Promise((resolve) => {
        wake = resolve;
      });
    },
  });
  cursor.moved(1);
  cursor.moved(2);
  cursor.moved(7);
  cursor.moved(3);
  expect(told).toEqual([1]);
  first.reject(new Error("no relay"));
  await settled();
  first = Promise.withResolvers();
  first.resolve();
  wake();
  await settled();
  expect(told).toEqual([1, 7]);
  expect((waits[0] ?? 0) > (waits[1] ?? 0)).toBe(true);
  await cursor.flush();
  expect(told).toEqual([1, 7]);
  cursor.moved(8);
  over.abort();
  await cursor.flush();
  expect(told.at(-1)).toBe(8);
});
