// Slow: it simulates five minutes of calls that compete for the caps.
import { expect, test } from "vitest";
import { type Competition, compete, stepMs } from "./competing.ts";

const minute = 60_000;
/** What the relay is asked to send in a usual minute, of what its share allows. */
const usualLoad = 0.8;
/** The part of it that comes at once as the minute begins: more than may go at once, so that some wait for their turn. */
const burst = 1 / 3;

/** How long each send took, by the clock; `rush` has those of the minute in which all that a minute may hold came at once, and of the next. */
interface Waits {
  readonly usual: number[];
  readonly rush: number[];
}

async function sendFor(
  competition: Competition,
  { minutes, rushAt, most }: { minutes: number; rushAt: number; most: number },
): Promise<Waits> {
  const sends = { usual: [] as Promise<number>[], rush: [] as Promise<number>[] };
  for (let at = 0; at < minutes; at++) {
    const mine = at === rushAt || at === rushAt + 1 ? sends.rush : sends.usual;
    const perMinute = at === rushAt ? most : usualLoad * most;
    const atOnce = at === rushAt ? most : Math.round(perMinute * burst);
    for (let n = 0; n < atOnce; n++) mine.push(competition.send());
    const later = perMinute - atOnce;
    if (later === 0) await competition.pass(minute);
    for (let n = 0; n < later; n++) {
      await competition.pass(Math.round(minute / later));
      mine.push(competition.send());
    }
  }
  let isOver = false;
  const all = Promise.all([Promise.all(sends.usual), Promise.all(sends.rush)]).finally(() => {
    isOver = true;
  });
  all.catch(() => {});
  for (let waited = 0; !isOver && waited < minute; waited += stepMs) await competition.pass(stepMs);
  const [usual, rush] = await all;
  return { usual, rush };
}

const polls = async (competition: Competition) => ({
  reconciled: await competition.metric("relay_reconcile_polls_total"),
  hydrated: await competition.metric("relay_hydration_polls_total"),
});
const longest = (waits: readonly number[]) => Math.max(...waits);
const average = (waits: readonly number[]) => waits.reduce((sum, ms) => sum + ms, 0) / waits.length;

test.each([
  // messaging-service-api.md, "Per-minute caps", times the share.
  ["escala", 1, { requests: 300, messages: 60 }],
  ["enterprise", 0.25, { requests: 300, messages: 75 }],
] as const)(
  "%s, share %d: for five minutes sends, reconciliation and hydration compete within the caps, and sends go as if they were alone",
  { tags: ["slow"] },
  async (plan, share, ours) => {
    const alone = await compete(plan, share, { reconcile: { schedule: "off" } });
    const undisturbed = await sendFor(alone, { minutes: 3, rushAt: 1, most: ours.messages });
    expect(await polls(alone)).toEqual({ reconciled: 0, hydrated: 0 });

    const competition = await compete(plan, share, {}, { events: { truncate: 0.2 } });
    await competition.registerOpen(500);
    const waits = await sendFor(competition, { minutes: 5, rushAt: 2, most: ours.messages });

    const { perMinute: seen } = await competition.usage();
    expect(competition.refused).toEqual([]);
    expect(seen.refused).toBe(0);
    expect(seen.requests.peak).toBeLessThanOrEqual(ours.requests);
    expect(seen.messages.peak).toBeLessThanOrEqual(ours.messages);
    // There was a fight: what the caps leave to others than sends (a tenth of it to those whom somebody waits for) was
    // used by both of them for all five minutes, and in the rush the caps were used to the brim.
    const { reconciled, hydrated } = await polls(competition);
    const left = 0.9 * (ours.requests - ours.messages);
    expect(reconciled + hydrated).toBeGreaterThan(0.85 * 5 * left);
    expect(Math.min(reconciled, hydrated)).toBeGreaterThan(0.2 * 5 * left);
    expect(seen.requests.peak).toBeGreaterThan(0.9 * (left + ours.messages));
    expect(seen.messages.peak).toBeGreaterThan(0.95 * ours.messages);

    for (const of of ["usual", "rush"] as const) {
      expect(longest(waits[of]), of).toBeLessThanOrEqual(1.25 * longest(undisturbed[of]) + 2 * stepMs);
      expect(average(waits[of]), of).toBeLessThanOrEqual(1.25 * average(undisturbed[of]) + stepMs);
    }
  },
);
