import type { RetentionTimes, Swept } from "../port.ts";
import { createSweepEvents, type SweepEventsParts } from "./sweep-events.ts";
import { createSweepSubjects } from "./sweep-subjects.ts";

/** Rows of one step: Redis does nothing else for a millisecond or two. */
const mostAtOnce = 50;

/**
 * Deletes what is past its time, a few rows per step. Open deliveries, and the events and messages they need, stay
 * whatever their age. How far it has come stands in Redis; only in which phase of a pass it is each process knows for itself.
 */
export function createRetention(parts: SweepEventsParts) {
  const ofEvents = createSweepEvents(parts);
  const ofSubjects = createSweepSubjects(parts);
  const phases = [ofEvents.ignored, ofEvents.deliveries, ofEvents.events, ofEvents.kept, ofSubjects.seen, ofSubjects.registered] as const;
  let phase = 0;

  /** One phase of a pass, or a part of it: looks at up to `limit` rows. */
  return async function sweep(now: number, keep: RetentionTimes, limit: number): Promise<Swept> {
    const sum = { events: 0, deliveries: 0, messages: 0 };
    for (let left = limit; left > 0; left -= mostAtOnce) {
      const { more, ...taken } = await (phases[phase] ?? ofEvents.ignored)(now, keep, Math.min(left, mostAtOnce));
      if ("events" in taken) {
        sum.events += taken.events;
        sum.deliveries += taken.deliveries;
      } else sum.messages += taken.messages;
      if (more) continue;
      phase = (phase + 1) % phases.length;
      return { ...sum, done: phase === 0 };
    }
    return { ...sum, done: false };
  };
}
