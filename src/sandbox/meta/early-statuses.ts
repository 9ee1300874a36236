import type { Clock } from "../../model/clock.ts";
import type { MetaFaults } from "../faults.ts";
import type { MessageRecord } from "../world/records.ts";
import { isStruck } from "./update.ts";

/** Longest that an answer to a send waits for the message's first status, in milliseconds. */
const longestWaitMs = 5_000;

export type EarlyStatuses = ReturnType<typeof createEarlyStatuses>;

/** Keeps the answers to some sends back until the first status was posted: a sender then sees a status of an id that it does not know. */
export function createEarlyStatuses(parts: {
  readonly baseClock: Clock;
  readonly faults: () => MetaFaults;
  /** Whether there is a URL to post to. */
  readonly hasReceiver: () => boolean;
}) {
  const { baseClock, faults, hasReceiver } = parts;
  /** By wamid. */
  const waiting = new Map<string, () => void>();
  return {
    /** Called with each post as it ends. */
    posted(body: Buffer): void {
      if (waiting.size === 0) return;
      const text = body.toString("latin1");
      // A wamid may hold slashes, which the body escapes.
      for (const [wamid, resolve] of waiting) if (text.includes(JSON.stringify(wamid).replaceAll("/", "\\/"))) resolve();
    },
    /** Resolves when the answer to the send may go out. */
    async before({ wamid, future }: Pick<MessageRecord, "wamid" | "future">): Promise<void> {
      if (future.length === 0 || !hasReceiver() || !isStruck("early", wamid, faults().early)) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.set(wamid, resolve);
      const cancel = baseClock.after(longestWaitMs, resolve);
      await promise;
      cancel();
      waiting.delete(wamid);
    },
  };
}
