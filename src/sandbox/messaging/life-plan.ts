import type { Random } from "../random.ts";
import type { MessageStatus } from "../statuses.ts";
import type { FutureStep } from "../world/records.ts";
import { outcomeFor, stepsOf } from "./numbers.ts";

/** Milliseconds after the step before, from and to, at speed 1: most messages reach the phone "in seconds" (messaging-service-api.md, "Message status"). */
const waits: Readonly<Partial<Record<MessageStatus, readonly [number, number]>>> = {
  sent: [200, 1_000],
  delivered: [500, 4_000],
  read: [3_000, 60_000],
  failed: [300, 3_000],
};

/**
 * The life of a message to `phone`, accepted at `now` (unix milliseconds): what it becomes, and when.
 * `speed` divides the waits. The same `random` gives the same life.
 */
export function planLife(phone: string, { now, random, speed }: { now: number; random: Random; speed: number }): FutureStep[] {
  const outcome = outcomeFor(phone);
  let at = now;
  return stepsOf(outcome, random).map((step) => {
    const [least, most] = waits[step.status] ?? [0, 0];
    at += ((least + random.next() * (most - least)) * (outcome.slowness ?? 1)) / speed;
    return { ...step, at: Math.round(at) };
  });
}
