import fc from "fast-check";
import { expect, test } from "vitest";
import { type HydrationMessages, runHydrationPass } from "../../../src/hydrate/pass.ts";
import { hydrateSchema } from "../../../src/hydrate/settings.ts";
import type { TrackedMessage } from "../../../src/model/hydration.ts";
import type { PollAnswer } from "../../../src/model/poll.ts";
import { createManualClock, settled as turns } from "../../harness/manual-clock.ts";
import { createMemoryStore, type WaitingEvent } from "./memory-store.ts";

const start = 1_800_000_000_000;
const minute = 60_000;
const hour = 60 * minute;

function someMessages(
  count: number,
  parts: (n: number) => Partial<TrackedMessage> = () => ({}),
): TrackedMessage[] {
  return Array.from({ length: count }, (_, n) => ({
    message: n + 1,
    messageId: `id-${n + 1}`,
    status: "sent",
    registeredAt: start - hour + n,
    sentAt: null,
    changedAt: start - hour,
    readAt: null,
    ...parts(n),
  }));
}

const found = (id: string, at = start + 2_000): PollAnswer => ({
  type: "found",
  at,
  wamid: `wamid of ${id}`,
  status: "delivered",
  errorCode: null,
});
const later: PollAnswer = { type: "failed", isFinal: false, error: "network" };

interface Plan {
  readonly messages: TrackedMessage[];
  readonly events?: WaitingEvent[];
  readonly settings?: Record<string, unknown>;
  /** The answer of the service. */
  answer(id: string, now: number): PollAnswer;
}

/** Runs one pass, and advances the clock until it ends. */
async function runThrough({
  messages,
  events = [{ seq: 1, receivedAt: start }],
  settings = {},
  answer,
}: Plan) {
  const clock = createManualClock(start + 2_000);
  const { store, begin, settled, calls } = createMemoryStore(messages, events);
  const polled: { id: string; at: number }[] = [];
  const submitted: string[] = [];
  let inFlight = 0;
  let most = 0;
  const service: HydrationMessages = {
    async poll(_, id) {
      polled.push({ id, at: clock.now() });
      inFlight += 1;
      most = Math.max(most, inFlight);
      await Promise.resolve();
      inFlight -= 1;
      return answer(id, clock.now());
    },
    async submit(_, messageId) {
      if (submitted.includes(messageId)) return false;
      submitted.push(messageId);
      return true;
    },
  };
  const stop = new AbortController();
  const pass = begin(clock.now());
  let isOver = false;
  const parts = {
    store,
    messages: service,
    clock,
    random: () => 1,
    settings: () => hydrateSchema.parse(settings),
  };
  const run = runHydrationPass(
    pass,
    { ...parts, onRead: () => {}, onSettled: () => {} },
    stop.signal,
  ).finally(() => {
    isOver = true;
  });
  for (let steps = 0; !isOver && steps < 2_000; steps += 1) {
    await turns(20);
    if (!isOver) await clock.advance(minute / 2);
  }
  if (!isOver) stop.abort();
  return {
    tally: await run,
    settled,
    polled,
    submitted,
    calls,
    most,
    clock,
    events,
    isOver: !stop.signal.aborted,
  };
}

test("reads all candidates, latest first, at most eight at once", async () => {
  const { tally, settled, polled, most } = await runThrough({
    messages: someMessages(30),
    answer: found,
  });
  expect(polled.map(({ id }) => id)).toEqual(Array.from({ length: 30 }, (_, n) => `id-${30 - n}`));
  expect(tally).toEqual({
    events: 1,
    polled: 30,
    changed: 30,
    missing: 0,
    unknown: 0,
    gaveUp: null,
  });
  expect(settled).toEqual([{ seq: 1, reason: null, unknown: 0 }]);
  expect(most).toBe(8);
});

test("counts messages without the service's id as unknown, but not those that the service does not know", async () => {
  const messages = someMessages(4, (n) => (n === 0 ? { messageId: null } : {}));
  const { tally, settled } = await runThrough({
    messages,
    answer: (id) =>
      id === "id-2" ? { type: "missing", at: start + 2_000, isCredible: true } : found(id),
  });
  expect(tally).toMatchObject({ polled: 3, missing: 1, unknown: 1 });
  expect(settled).toEqual([{ seq: 1, reason: null, unknown: 1 }]);
});

test("reads messages answered 404 again once the service has found another one", async () => {
  let hasFound = false;
  const seen: string[] = [];
  const answer = (id: string, now: number): PollAnswer => {
    seen.push(id);
    hasFound ||= id === "id-1";
    return hasFound && id !== "id-2"
      ? found(id)
      : { type: "missing", at: now, isCredible: hasFound };
  };
  const { tally, settled } = await runThrough({ messages: someMessages(12), answer });
  expect(seen.slice(0, 12)).toEqual(Array.from({ length: 12 }, (_, n) => `id-${12 - n}`));
  expect(new Set(seen.slice(12))).toEqual(new Set(seen.slice(0, 11)));
  expect(tally).toMatchObject({ unknown: 0, changed: 11 });
  expect(settled).toEqual([{ seq: 1, reason: null, unknown: 0 }]);

  const never = await runThrough({
    messages: someMessages(3),
    answer: (_, now) => ({ type: "missing", at: now, isCredible: false }),
  });
  expect(never.tally).toMatchObject({ polled: 3, missing: 3, unknown: 3 });
});

test("probes a service that is down with one call at a time, at growing intervals", async () => {
  const upAt = start + hour;
  const { tally, polled, settled } = await runThrough({
    messages: someMessages(40),
    answer: (id, now) => (now < upAt ? later : found(id)),
  });
  const failed = polled.filter(({ at }) => at < upAt);
  expect(failed.length).toBeLessThan(8 + 12);
  expect(new Set(failed.slice(8).map(({ at }) => at)).size).toBe(failed.length - 8);
  expect(tally).toMatchObject({ polled: 40, changed: 40, unknown: 0, gaveUp: null });
  expect(settled).toEqual([{ seq: 1, reason: null, unknown: 0 }]);
});

test("gives up on a message that never answers without delaying the others", async () => {
  const { tally, polled, clock } = await runThrough({
    messages: someMessages(20),
    answer: (id) => (id === "id-15" ? later : found(id)),
  });
  expect(tally).toMatchObject({ polled: 19, unknown: 1, gaveUp: null });
  expect(polled.filter(({ id }) => id === "id-15")).toHaveLength(5);
  expect(clock.now() - start).toBeLessThan(30 * minute);
});

test("gives up an event when its time is up and continues for the others", async () => {
  const upAt = start + 5.5 * hour + 6 * hour;
  const { settled, tally } = await runThrough({
    messages: someMessages(3),
    events: [
      { seq: 1, receivedAt: start - 5 * hour },
      { seq: 2, receivedAt: start },
    ],
    answer: (id, now) => (now < upAt - 6 * hour ? later : found(id)),
  });
  expect(settled).toEqual([
    { seq: 1, reason: "too-long", unknown: 3 },
    { seq: 2, reason: null, unknown: 0 },
  ]);
  expect(tally).toMatchObject({ events: 2, polled: 3 });
});

test("ends at once when the account has no key", async () => {
  const { settled, tally } = await runThrough({
    messages: someMessages(3),
    answer: () => ({ type: "no-client" }),
  });
  expect(settled).toEqual([{ seq: 1, reason: "no-key", unknown: 3 }]);
  expect(tally).toMatchObject({ polled: 0, gaveUp: "no-key" });
});

test("waits when the day's calls are used up, and gives up in time", async () => {
  const { settled, calls } = await runThrough({
    messages: someMessages(30),
    settings: { callsPerDay: 10 },
    answer: found,
  });
  expect(calls()).toBe(10);
  expect(settled).toEqual([{ seq: 1, reason: "too-long", unknown: 20 }]);
});

test("does not wait when the day's calls are just enough", async () => {
  const { settled, clock } = await runThrough({
    messages: someMessages(10),
    settings: { callsPerDay: 10 },
    answer: found,
  });
  expect(settled).toEqual([{ seq: 1, reason: null, unknown: 0 }]);
  expect(clock.now() - start).toBeLessThan(minute);
});

test("does not read again what was read since the events arrived", async () => {
  const messages = someMessages(4, (n) => ({ readAt: n < 2 ? start + 1 : start - 1 }));
  const { polled, tally } = await runThrough({ messages, answer: found });
  expect([polled.map(({ id }) => id), tally?.unknown]).toEqual([["id-4", "id-3"], 0]);
});

test("settles every event once and counts what was not read, whatever the service answers", async () => {
  const behaviour = fc.constantFrom(
    "found",
    "missing",
    "refused",
    "flaky",
    "never",
    "down",
    "no id",
  );
  const event = fc.record({ ago: fc.nat({ max: 5 * hour }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(behaviour, { maxLength: 25 }),
      fc.array(event, { minLength: 1, maxLength: 5 }),
      fc.nat({ max: 9 * hour }),
      async (behaviours, given, downFor) => {
        const upAt = start + downFor;
        const seen = new Map<string, number>();
        const messages = someMessages(behaviours.length, (n) =>
          behaviours[n] === "no id" ? { messageId: null } : {},
        );
        const events = given
          .toSorted((a, b) => b.ago - a.ago)
          .map(({ ago }, n): WaitingEvent => ({ seq: n + 1, receivedAt: start - ago }));
        const { settled, isOver, polled } = await runThrough({
          messages,
          events,
          answer(id, now) {
            const how = behaviours[Number(id.slice(3)) - 1] ?? "missing";
            if (behaviours.includes("down") && now < upAt) return later;
            const count = (seen.get(id) ?? 0) + 1;
            seen.set(id, count);
            if (how === "missing") return { type: how, at: now, isCredible: true };
            if (how === "refused") return { type: "failed", isFinal: true, error: "validation" };
            return how === "never" || (how === "flaky" && count < 3) ? later : found(id);
          },
        });
        expect(isOver).toBe(true);
        expect(settled.map(({ seq }) => seq).toSorted()).toEqual(given.map((_, n) => n + 1));
        const unread = messages.filter(({ readAt }) => readAt === null).length;
        const full = settled.filter(({ reason }) => reason === null);
        for (const { unknown } of full) expect(unknown).toBe(unread);
        expect(polled.length).toBeLessThan(400);
      },
    ),
    { numRuns: 60 },
  );
});
