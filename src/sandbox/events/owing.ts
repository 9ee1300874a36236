import { createLane, type Lane } from "./lane.ts";
import { createOvertaking, type Overtaking } from "./overtaking.ts";
import type { Owed } from "./owed.ts";

interface UrlOwed {
  readonly lane: Lane;
  readonly overtaking: Overtaking;
  readonly all: Set<Owed>;
}

/** What is owed to each webhook URL, and how much in all. */
export interface Owing {
  add(owed: Owed): void;
  remove(owed: Owed): void;
  /** False for one that has ended. */
  has(owed: Owed): boolean;
  of(webhookId: string): UrlOwed;
  /** Lets go of a webhook that is gone, once nothing is owed to it. */
  forget(webhookId: string): void;
  webhooks(): string[];
  readonly total: number;
}

/** `atOnce`: posts under way to one URL. */
export function createOwing(atOnce: number, onError: (error: unknown) => void): Owing {
  const urls = new Map<string, UrlOwed>();
  let total = 0;
  const of = (webhookId: string): UrlOwed => {
    let url = urls.get(webhookId);
    if (url === undefined) {
      url = { lane: createLane(atOnce, onError), overtaking: createOvertaking(), all: new Set() };
      urls.set(webhookId, url);
    }
    return url;
  };
  return {
    of,
    add(owed) {
      of(owed.delivery.webhookId).all.add(owed);
      total += 1;
    },
    remove(owed) {
      if (urls.get(owed.delivery.webhookId)?.all.delete(owed) === true) total -= 1;
    },
    has: (owed) => urls.get(owed.delivery.webhookId)?.all.has(owed) === true,
    forget(webhookId) {
      if (urls.get(webhookId)?.all.size === 0) urls.delete(webhookId);
    },
    webhooks: () => [...urls.keys()],
    get total() {
      return total;
    },
  };
}
