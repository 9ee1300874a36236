import { expect, test } from "vitest";
import type { SendEnd, StoredSend } from "../../../src/model/send.ts";
import { createOnce, type Order, type SendStore } from "../../../src/send/once.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

const held: StoredSend = {
  state: "done",
  fingerprint: "f",
  attempts: 1,
  about: "+54…00",
  startedAt: 0,
  answer: { n: 1 },
};
const sent = { type: "run", runId: "r", reference: "k", metadata: undefined } as const;
const done = { type: "done", value: { end: "done", at: 0, answer: { n: 2 }, sent } } as const;
const caller = {
  disconnected: new AbortController().signal,
  maxWait: 1_000,
  tooLong: () => new Error("no room"),
};

/** A store in which the key is free; what is told to it is kept. */
function setUp(store: Partial<SendStore> = {}) {
  const settledAs: SendEnd["end"][] = [];
  const clock = createManualClock();
  const once = createOnce({
    clock,
    store: {
      find: async () => null,
      begin: async () => null,
      settle: async (_, { end }) => void settledAs.push(end),
      ...store,
    },
    hooks: { ended: () => {}, notStored: () => {} },
  });
  const order = (call: Order["call"]): Order => ({
    key: { account: "main", kind: "message", key: "k" },
    fingerprint: "f",
    about: "+54…00",
    resend: 0,
    call,
  });
  return { once, order, settledAs, clock };
}

test.each([
  ["done by another process meanwhile: its answer", held, { answer: { n: 1 }, stored: true }],
  [
    "unknown meanwhile",
    { ...held, state: "unknown", answer: null } as StoredSend,
    { code: "outcome_unknown" },
  ],
  [
    "calling in another process",
    { ...held, state: "calling", answer: null } as StoredSend,
    { code: "conflict", retryAfterMs: 1_000 },
  ],
  ["for another body", { ...held, fingerprint: "g" }, { code: "idempotency_conflict" }],
])("a key taken between the look and the call, %s: nothing leaves", async (_, taken, expected) => {
  let left = 0;
  const { once, order } = setUp({ begin: async () => taken });
  const call = order(async ({ starting }) => {
    await starting();
    left += 1;
    return done;
  });
  expect(await once.send(call, caller).catch((error: unknown) => error)).toMatchObject(expected);
  expect(left).toBe(0);
});

test("answers conflict while a call is in flight, here or in another process, and rejects another body", async () => {
  const calling: StoredSend = { ...held, state: "calling", answer: null };
  const elsewhere = setUp({ find: async () => calling });
  const never = elsewhere.order(() => {
    throw new Error("it must not be called");
  });
  await expect(elsewhere.once.send(never, caller)).rejects.toMatchObject({
    code: "conflict",
    retryAfterMs: 1_000,
  });
  await expect(elsewhere.once.send({ ...never, fingerprint: "g" }, caller)).rejects.toMatchObject({
    code: "idempotency_conflict",
  });

  const { once, order, clock } = setUp();
  const going = Promise.withResolvers<void>();
  const call = order(async ({ starting }) => {
    await starting();
    await going.promise;
    return done;
  });
  const first = once.send(call, caller);
  await settled();
  await expect(once.send(call, caller)).rejects.toMatchObject({
    code: "conflict",
    retryAfterMs: 1_000,
  });
  await expect(once.send({ ...call, fingerprint: "g" }, caller)).rejects.toMatchObject({
    code: "idempotency_conflict",
  });
  going.resolve();
  expect(await first).toMatchObject({ answer: { n: 2 }, replayed: false });
  expect(clock.pending()).toBe(0);
});

test("an unexpected error leaves the key unknown when a request may have been sent, else free", async () => {
  const { once, order, settledAs } = setUp();
  const after = order(async ({ starting }) => {
    await starting();
    throw new Error("a bug");
  });
  await expect(once.send(after, caller)).rejects.toMatchObject({ code: "outcome_unknown" });
  const before = order(async () => {
    throw new Error("a bug");
  });
  await expect(once.send(before, caller)).rejects.toThrow("a bug");
  const between = order(async ({ starting, repeating }) => {
    await starting();
    await repeating();
    throw new Error("a bug");
  });
  await expect(once.send(between, caller)).rejects.toThrow("a bug");
  expect(settledAs).toEqual(["unknown", "not-done"]);
});

test("releases a key that may have been claimed when the store failed, once the store is back", async () => {
  const lost = Object.assign(new Error("no answer"), { mayBeDone: true });
  let stored: StoredSend | null = null;
  let isAway = true;
  const away = async <T>(done: () => T): Promise<T> => {
    if (isAway) throw lost;
    return done();
  };
  const { once, order, clock } = setUp({
    find: async () => stored,
    async begin() {
      stored = { ...held, state: "calling", answer: null };
      return away(() => null);
    },
    settle: (_, { end }) =>
      away(() => {
        if (end === "not-done") stored = null;
      }),
  });
  let left = 0;
  const call = order(async ({ starting }) => {
    await starting();
    left += 1;
    return done;
  });
  await expect(once.send(call, caller)).rejects.toBe(lost);
  await clock.advance(2_000);
  // Until then whoever asks is told the same.
  await expect(once.send(call, caller)).rejects.toBe(lost);
  isAway = false;
  await clock.advance(1_000);
  expect([stored, left]).toEqual([null, 0]);
  expect(await once.send(call, caller)).toMatchObject({ answer: { n: 2 }, replayed: false });
  expect([clock.pending(), left]).toEqual([0, 1]);
});

test("does not release a key that was not claimed because the store was unavailable", async () => {
  const { once, order, settledAs, clock } = setUp({
    begin: () => Promise.reject(new Error("away")),
  });
  const call = order(async ({ starting }) => {
    await starting();
    return done;
  });
  await expect(once.send(call, caller)).rejects.toThrow("away");
  expect([settledAs, clock.pending()]).toEqual([[], 0]);
});

test("holds an outcome that cannot be stored, retries every second, and drops it when closed", async () => {
  let isFull = true;
  let attempts = 0;
  const settle = async () => {
    attempts += 1;
    if (isFull) throw new Error("disk full");
  };
  const { once, order, clock } = setUp({ settle });
  let calls = 0;
  const call = order(async ({ starting }) => {
    await starting();
    calls += 1;
    return done;
  });
  expect(await once.send(call, caller)).toMatchObject({
    answer: { n: 2 },
    stored: false,
    replayed: false,
  });
  await clock.advance(2_000);
  expect(attempts).toBe(3);
  expect(await once.send(call, caller)).toMatchObject({
    answer: { n: 2 },
    stored: false,
    replayed: true,
  });
  expect(calls).toBe(1);
  isFull = false;
  await clock.advance(1_000);
  // Stored: the next one asks the store, which says it is free in this test.
  await once.send(call, caller);
  expect(calls).toBe(2);

  isFull = true;
  await once.send(call, caller);
  await once.close();
  attempts = 0;
  await clock.advance(10_000);
  await settled();
  expect(attempts).toBe(0);
});

test("a client that disconnects while its call waits sends nothing, and frees the key", async () => {
  const { once, order, clock } = setUp();
  const leaving = new AbortController();
  let calls = 0;
  const call = order(({ signal, starting }) => {
    calls += 1;
    if (calls === 2) return starting().then(() => done);
    return new Promise((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason)),
    );
  });
  const first = once.send(call, { ...caller, disconnected: leaving.signal });
  first.catch(() => {});
  await settled();
  leaving.abort();
  await expect(first).rejects.toMatchObject({ code: "request_timeout" });
  expect(await once.send(call, caller)).toMatchObject({ answer: { n: 2 } });
  expect([calls, clock.pending()]).toEqual([2, 0]);
});
