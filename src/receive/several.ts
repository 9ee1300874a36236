import { setImmediate as nextTurn } from "node:timers/promises";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { ReceivedItem } from "./read-items.ts";

/** Bytes of requests whose items are not all stored yet: of all sources, and of one. */
const mostBytes = { ofAll: 64 * 1024 ** 2, ofSource: 32 * 1024 ** 2 };
/** Items that are handed to the store at once. Other requests take turns with these slices. */
const sliceItems = 250;
/** Requests of this size are read one after the other: parsed, a body takes several times its bytes. */
const largeBytes = 128 * 1024;

interface Storing {
  event(event: ReceivedEvent): Promise<{ readonly result: "accepted" | "duplicate" }>;
  quarantine(body: QuarantinedBody): Promise<{ readonly result: "quarantined" | "duplicate" }>;
  /** A body was stored as no event, for the first time. */
  quarantined(body: QuarantinedBody): void;
}

/** How many items of a request were new events, repeats, and kept as no event. */
export interface ItemCounts {
  readonly events: number;
  readonly duplicates: number;
  readonly quarantined: number;
  readonly unassigned: number;
}

/**
 * Stores the items of requests. Bounded in bytes, because a request is acknowledged only when all of it is stored: what was
 * stored before a failure stays, and the repeat of the request adds the rest.
 */
export function createSeveral({ event, quarantine, quarantined }: Storing) {
  const pending = new Map<string, number>();
  let ofAll = 0;
  let lastLarge: Promise<unknown> = Promise.resolve();

  async function store(read: () => readonly ReceivedItem[]): Promise<ItemCounts> {
    const counts = { events: 0, duplicates: 0, quarantined: 0, unassigned: 0 };
    const items = read();
    const one = async (item: ReceivedItem): Promise<void> => {
      if (item.kind === "event") {
        const { result } = await event(item.event);
        counts[result === "duplicate" ? "duplicates" : "events"] += 1;
        return;
      }
      const { result } = await quarantine(item.body);
      if (result === "quarantined") quarantined(item.body);
      counts[result === "duplicate" ? "duplicates" : (item.body.disposition ?? "quarantined")] += 1;
    };
    for (let from = 0; from < items.length; from += sliceItems) {
      if (from > 0) await nextTurn();
      await Promise.all(items.slice(from, from + sliceItems).map(one));
    }
    return counts;
  }

  return {
    /** Null: too much is pending. */
    take(source: string, bytes: number, read: () => readonly ReceivedItem[]): Promise<ItemCounts> | null {
      const ofSource = pending.get(source) ?? 0;
      // One request always fits.
      if (ofAll > 0 && (ofAll + bytes > mostBytes.ofAll || (ofSource > 0 && ofSource + bytes > mostBytes.ofSource))) return null;
      ofAll += bytes;
      pending.set(source, ofSource + bytes);
      const stored = bytes < largeBytes ? store(read) : lastLarge.then(nextTurn).then(() => store(read));
      const done = stored.finally(() => {
        ofAll -= bytes;
        pending.set(source, (pending.get(source) as number) - bytes);
      });
      if (bytes >= largeBytes) lastLarge = done.catch(() => {});
      return done;
    },
  };
}
