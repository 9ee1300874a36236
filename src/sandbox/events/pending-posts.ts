import { createLane, type Lane } from "./lane.ts";
import { createOvertaking, type Overtaking } from "./overtaking.ts";
import type { PendingPost } from "./pending-post.ts";

interface UrlQueue {
  readonly lane: Lane;
  readonly overtaking: Overtaking;
  readonly all: Set<PendingPost>;
}

/** The pending posts of each webhook URL, and how many in all. */
export interface PendingPosts {
  add(post: PendingPost): void;
  remove(post: PendingPost): void;
  /** False for one that has ended. */
  has(post: PendingPost): boolean;
  of(webhookId: string): UrlQueue;
  /** Forgets a deleted webhook once nothing is pending for it. */
  forget(webhookId: string): void;
  webhooks(): string[];
  readonly total: number;
}

/** `atOnce`: posts in flight to one URL. */
export function createPendingPosts(atOnce: number, onError: (error: unknown) => void): PendingPosts {
  const urls = new Map<string, UrlQueue>();
  let total = 0;
  const of = (webhookId: string): UrlQueue => {
    let url = urls.get(webhookId);
    if (url === undefined) {
      url = { lane: createLane(atOnce, onError), overtaking: createOvertaking(), all: new Set() };
      urls.set(webhookId, url);
    }
    return url;
  };
  return {
    of,
    add(post) {
      of(post.delivery.webhookId).all.add(post);
      total += 1;
    },
    remove(post) {
      if (urls.get(post.delivery.webhookId)?.all.delete(post) === true) total -= 1;
    },
    has: (post) => urls.get(post.delivery.webhookId)?.all.has(post) === true,
    forget(webhookId) {
      if (urls.get(webhookId)?.all.size === 0) urls.delete(webhookId);
    },
    webhooks: () => [...urls.keys()],
    get total() {
      return total;
    },
  };
}
