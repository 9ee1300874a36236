import { expect, test } from "vitest";
import { createRandom } from "../../../../src/sandbox/ids.ts";
import type { CallCap } from "../../../../src/service/endpoints.ts";
import { planCaps, shareOf } from "../../../../src/service/limits/caps.ts";
import { type Meeting, meet, minute, type Party, resultOf } from "./meeting.ts";
import { openSlowRoad } from "./slow-road.ts";

/** The account's message that everybody polls, and a template to send. */
async function prepare(meeting: Meeting, { client }: Party) {
  const templateId = meeting.sandbox.templates()[0]?.id ?? "";
  const sent = await resultOf(meeting, client.sendMessage({ to: meeting.phone(), template: { id: templateId } }));
  return { templateId, messageId: sent.id ?? "" };
}

/** Tasks that call as fast as they are let until told to stop; whatever fails is kept. */
function startTasks(
  meeting: Meeting,
  { client }: Party,
  { templateId, messageId }: { templateId: string; messageId: string },
  count: Record<"send" | "ask" | "poll", number>,
) {
  let isOver = false;
  const stop = new AbortController();
  const failures: unknown[] = [];
  const done = { send: 0, ask: 0, poll: 0 };
  const makes = {
    send: () => client.sendMessage({ to: meeting.phone(), template: { id: templateId } }, { signal: stop.signal }),
    ask: () => client.me({ signal: stop.signal }),
    poll: () => client.getMessage(messageId, { priority: "poll", signal: stop.signal }),
  };
  const tasks = (["poll", "ask", "send"] as const).flatMap((what) =>
    Array.from({ length: count[what] }, async () => {
      while (!isOver) {
        try {
          await makes[what]();
          done[what] += 1;
        } catch (error) {
          if (!isOver) failures.push(error);
          return;
        }
      }
    }),
  );
  return {
    failures,
    done,
    async end() {
      isOver = true;
      stop.abort();
      await Promise.all(tasks);
    },
  };
}

test.each([
  ["escala", 1],
  ["enterprise", 0.5],
] as const)("%s, share %d: competing sends and polls never exceed the share", async (plan, share) => {
  const meeting = await meet({ plan });
  const random = createRandom(`${plan} ${share}`);
  const road = await openSlowRoad(meeting.sandbox.url, meeting.clock, () => random.below(1_500));
  meeting.held = road.held;
  const party = meeting.join({ baseUrl: road.url, connections: 96, limits: { share, atOnce: 96 } });
  const tasks = startTasks(meeting, party, await prepare(meeting, party), { send: 12, ask: 12, poll: 24 });
  const minutes = 2;
  await meeting.pass(minutes * minute);
  const { perMinute } = await meeting.usage();
  const { failures, done } = tasks;
  const sends = done.send;
  await tasks.end();

  expect(failures).toEqual([]);
  expect(meeting.refused).toEqual([]);
  expect(perMinute.refused).toBe(0);
  const ours = shareOf(planCaps[plan], share);
  for (const cap of ["requests", "messages"] as const) {
    expect(perMinute[cap].peak, cap).toBeLessThanOrEqual(ours[cap]);
    // And what is ours is used.
    expect(perMinute[cap].peak, cap).toBeGreaterThan(0.9 * ours[cap]);
  }
  // A slot is held for as long as the call takes, too: 1.5 s on average, of 61.5.
  expect(sends).toBeGreaterThan(0.9 * minutes * ours.messages);
  expect(done.poll).toBeGreaterThan(0);
  expect(done.ask).toBeGreaterThan(0);
});

test("an occasional send does not wait for polls", async () => {
  const meeting = await meet({ plan: "escala" });
  const party = meeting.join({ limits: { share: 0.5 } });
  const ground = await prepare(meeting, party);
  const tasks = startTasks(meeting, party, ground, { send: 0, ask: 20, poll: 40 });
  const waits: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const asked = meeting.clock.now();
    const sent = party.client.sendMessage({ to: meeting.phone(), template: { id: ground.templateId } });
    await meeting.finish(sent);
    waits.push(meeting.clock.now() - asked);
    await meeting.pass(3_000);
  }
  const { perMinute } = await meeting.usage();
  await tasks.end();
  expect(tasks.failures).toEqual([]);
  expect(meeting.refused).toEqual([]);
  expect(Math.max(...waits)).toBeLessThanOrEqual(200);
  expect(perMinute.requests.peak).toBeLessThanOrEqual(planCaps.escala.requests / 2);
});

test("with a second user of the account, calls wait for its 429s, none fails, and the rate recovers", async () => {
  const meeting = await meet({ plan: "escala" });
  // Both believe that all of the account is theirs.
  const ours = meeting.join();
  const ground = await prepare(meeting, ours);
  const tasks = startTasks(meeting, ours, ground, { send: 6, ask: 6, poll: 12 });
  await meeting.pass(minute);
  expect(meeting.refused).toEqual([]);

  const theirs = meeting.join({ limits: { share: 0.5 } });
  const others = startTasks(meeting, theirs, ground, { send: 3, ask: 3, poll: 6 });
  await meeting.pass(6 * minute);
  await others.end();
  const meanwhile = meeting.refused.length;
  expect(meanwhile).toBeGreaterThan(0);
  expect(new Set(meeting.refused.map(({ status }) => status))).toEqual(new Set([429]));
  for (const { calls } of [ours, theirs]) expect(sentDuringHolds(calls)).toEqual([]);
  // What was on its way together with the first of them, and then one at a time: not a hammering.
  const { perMinute } = await meeting.usage();
  expect(perMinute.refused).toBe(meanwhile);
  expect(perMinute.requests.peak).toBeLessThanOrEqual(600);

  await meeting.pass(6 * minute);
  const settledAt = meeting.refused.length;
  const before = { ...tasks.done };
  await meeting.pass(3 * minute);
  await tasks.end();
  expect(meeting.refused).toHaveLength(settledAt);
  expect(tasks.done.send - before.send).toBeGreaterThan(0.9 * 3 * 60);
  expect(tasks.failures).toEqual([]);
  expect(others.failures).toEqual([]);
});

/** Calls of a cap let go between a 429 of it and the end of its `Retry-After`. */
function sentDuringHolds(calls: Party["calls"]): unknown[] {
  return calls.flatMap(({ outcome, endedAt }) => {
    if (outcome?.type !== "rate-limited" || outcome.retryAfterMs === null) return [];
    const until = endedAt + outcome.retryAfterMs;
    const isHeld = (cap: CallCap) => outcome.cap === "requests" || cap === "messages";
    return calls.filter(({ request, at }) => isHeld(request.cap) && at > endedAt && at < until);
  });
}
