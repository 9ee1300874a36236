import { setImmediate as nextTurn } from "node:timers/promises";
import { couldBeMeant, isRead, registeredFrom } from "./meant.ts";
import type { Covered, HydrationStore, Place, Sweep, TrackedMessage } from "./port.ts";
import type { HydrateSettings } from "./settings.ts";

/** Rows read between two turns of the event loop: some milliseconds of the thread that also receives. */
const stepRows = 500;

interface WalkParts {
  readonly store: Pick<HydrationStore, "trackedMessages">;
  readonly sweep: Pick<Sweep, "account" | "startedAt">;
  readonly covered: Covered;
  readonly settings: HydrateSettings;
}

/** Messages that one of the covered events could be about and that nobody has read since, latest registered first. */
export async function* unreadMessages(parts: WalkParts, withId: boolean): AsyncGenerator<TrackedMessage> {
  const { store, sweep, covered, settings } = parts;
  const from = registeredFrom(covered, settings);
  let before: Place = { registeredAt: sweep.startedAt, message: null };
  for (;;) {
    const rows = await store.trackedMessages(sweep.account, { withId, before, from, limit: stepRows });
    for (const row of rows) if (couldBeMeant(row, covered, settings) && !isRead(row, covered)) yield row;
    const last = rows.at(-1);
    if (last === undefined || rows.length < stepRows) return;
    before = last;
    await nextTurn();
  }
}

/** How many could be meant and were not read: what stays unknown. */
export async function countUnread(parts: WalkParts): Promise<number> {
  let count = 0;
  for (const withId of [true, false]) for await (const _ of unreadMessages(parts, withId)) count += 1;
  return count;
}
