import { expect, test } from "vitest";
import { planCaps, quotasOf, shareOf } from "../../../src/service-api/limits/caps.ts";
import { type Competition, compete, stepMs } from "./competing.ts";

const minute = 60_000;
/** What the relay is asked to send, of what its share allows: with the bursts, some have to wait for their turn. */
const sendLoad = 0.8;
/** Sent at once on each minute, of all that is sent in it. */
const burst = 1 / 3;

/** Sends for so many minutes: a burst on each minute, the rest evenly. Gives how long each took. */
async function sendFor(competition: Competition, minutes: number, perMinute: number): Promise<number[]> {
  const atOnce = Math.round(perMinute * burst);
  const pause = minute / (perMinute - atOnce);
  const sends: Promise<number>[] = [];
  for (let done = 0; done < minutes; done++) {
    for (let n = 0; n < atOnce; n++) sends.push(competition.send());
    for (let n = 0; n < perMinute - atOnce; n++) {
      await competition.pass(pause);
      sends.push(competition.send());
    }
  }
  let isOver = false;
  const all = Promise.all(sends).finally(() => {
    isOver = true;
  });
  all.catch(() => {});
  for (let waited = 0; !isOver && waited < minute; waited += stepMs) await competition.pass(stepMs);
  return all;
}

const polls = async (competition: Competition) => ({
  reconciled: await competition.metric("relay_reconcile_asks_total"),
  hydrated: await competition.metric("relay_hydration_asks_total"),
});
const longest = (waits: readonly number[]) => Math.max(...waits);
const average = (waits: readonly number[]) => waits.reduce((sum, ms) => sum + ms, 0) / waits.length;

test.each([
  ["escala", 1],
  ["enterprise", 0.25],
] as const)(
  "%s, share %d: for ten minutes sends, reconciliation and hydration compete within the caps, and sends go as if they were alone",
  async (plan, share) => {
    const ours = shareOf(planCaps[plan], share);
    const perMinute = sendLoad * ours.messages;
    const alone = await compete(plan, share, { reconcile: { schedule: "off" } });
    const undisturbed = await sendFor(alone, 2, perMinute);
    expect(await polls(alone)).toEqual({ reconciled: 0, hydrated: 0 });

    const competition = await compete(plan, share, {}, { events: { truncate: 0.2 } });
    await competition.registerOpen(800);
    const waits = await sendFor(competition, 10, perMinute);

    const { perMinute: seen } = await competition.usage();
    expect(competition.refused).toEqual([]);
    expect(seen.refused).toBe(0);
    expect(seen.requests.peak).toBeLessThanOrEqual(ours.requests);
    expect(seen.messages.peak).toBeLessThanOrEqual(ours.messages);
    // There was a fight: all that sends leave was used by both of the others, for all ten minutes.
    const { reconciled, hydrated } = await polls(competition);
    const left = quotasOf(ours).poll;
    expect(reconciled + hydrated).toBeGreaterThan(0.85 * 10 * left);
    expect(Math.min(reconciled, hydrated)).toBeGreaterThan(0.2 * 10 * left);
    expect(seen.requests.peak).toBeGreaterThan(0.8 * ours.requests);

    expect(longest(waits)).toBeLessThanOrEqual(1.25 * longest(undisturbed) + 2 * stepMs);
    expect(average(waits)).toBeLessThanOrEqual(1.25 * average(undisturbed) + stepMs);
  },
  60_000,
);
