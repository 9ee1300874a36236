import { setImmediate as nextTurn } from "node:timers/promises";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import { countIn } from "../model/maps.ts";
import { largeBytes, type ReceivedItem } from "./verify-request.ts";

/** Received and not yet stored. */
const most = {
  bytes: { ofAll: 64 * 1024 ** 2, ofOne: 32 * 1024 ** 2 },
  items: { ofAll: 40_000, ofOne: 20_000 },
};
/** Handed to the store at once, before other requests take turns. */
const sliceItems = 250;

/** Calls reject when nothing can be stored now. */
export interface Storing {
  /** Resolves once the event is durable; `duplicate` when its id is stored already. */
  event(event: ReceivedEvent): Promise<{ readonly result: "accepted" | "duplicate" }>;
  quarantine(body: QuarantinedBody): Promise<{ readonly result: "quarantined" | "duplicate" }>;
}

interface SeveralParts extends Storing {
  /** For the first time. */
  quarantined(body: QuarantinedBody): void;
}

export interface ItemCounts {
  readonly events: number;
  readonly duplicates: number;
  readonly quarantined: number;
  readonly unassigned: number;
}

/**
 * A request is acknowledged only when all of it is stored. What was stored before a failure stays.
 */
export function createSeveral({ event, quarantine, quarantined }: SeveralParts) {
  /**
   * Which accounts a request is for is known when it is read. Until then it counts for its source.
   */
  const bytesOfSources = createBound(most.bytes);
  const bytesOfAccounts = createBound(most.bytes);
  const itemsOfAccounts = createBound(most.items);
  let lastLarge: Promise<unknown> = Promise.resolve();

  async function storeEach(items: readonly ReceivedItem[]): Promise<ItemCounts> {
    const counts = { events: 0, duplicates: 0, quarantined: 0, unassigned: 0 };
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

  async function store(read: () => readonly ReceivedItem[]): Promise<ItemCounts | null> {
    const items = read();
    const [bytes, number] = [new Map<string, number>(), new Map<string, number>()];
    for (const item of items) {
      const { account, body } = item.kind === "event" ? item.event : item.body;
      countIn(bytes, account, body.length);
      countIn(number, account);
    }
    using _bytes = bytesOfAccounts.take(bytes);
    using _items = itemsOfAccounts.take(number);
    return _bytes === null || _items === null ? null : await storeEach(items);
  }

  /** Null: too much is pending. */
  async function inTurn<Result>(
    source: string,
    bytes: number,
    run: () => Promise<Result>,
  ): Promise<Result | null> {
    using taken = bytesOfSources.take(new Map([[source, bytes]]));
    if (taken === null) return null;
    if (bytes < largeBytes) return await run();
    const done = lastLarge.then(nextTurn).then(run);
    lastLarge = done.catch(() => {});
    return await done;
  }

  return {
    inTurn,
    take: (
      source: string,
      bytes: number,
      read: () => readonly ReceivedItem[],
    ): Promise<ItemCounts | null> => inTurn(source, bytes, () => store(read)),
  };
}

/** Where nothing is pending yet, any share fits. */
function createBound({ ofAll, ofOne }: { readonly ofAll: number; readonly ofOne: number }) {
  const pending = new Map<string, number>();
  let all = 0;

  function add(shares: ReadonlyMap<string, number>, sign: 1 | -1): void {
    for (const [name, share] of shares) {
      const left = (pending.get(name) ?? 0) + sign * share;
      all += sign * share;
      if (left === 0) pending.delete(name);
      else pending.set(name, left);
    }
  }

  return {
    /** Until the result is disposed. Null: the shares do not fit. */
    take(shares: ReadonlyMap<string, number>): Disposable | null {
      let sum = 0;
      for (const [name, share] of shares) {
        sum += share;
        if (pending.has(name) && (pending.get(name) as number) + share > ofOne) return null;
      }
      if (all > 0 && all + sum > ofAll) return null;
      add(shares, 1);
      return { [Symbol.dispose]: () => add(shares, -1) };
    },
  };
}
