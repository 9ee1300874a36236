import type { Post } from "../../sandbox/traffic/post.ts";
import type { TrackedMessage } from "./relay-api.ts";

/** One in so many of our messages is registered only after its first event was posted: its failures are parked until then. */
const lateEvery = 8;

/** The messages that are ours, as the demo's user would register them: most before their first event, some after it. */
export function messagesOf(posts: readonly Post[]): { early: TrackedMessage[]; late: Map<string, TrackedMessage> } {
  const wamids = new Set<string>();
  for (const { subject } of posts) if (subject.ours && subject.wamid !== null) wamids.add(subject.wamid);
  const early: TrackedMessage[] = [];
  const late = new Map<string, TrackedMessage>();
  let number = 0;
  for (const wamid of wamids) {
    number += 1;
    const message = { account: "main", wamid, reference: `order-${number}`, metadata: { shop: number % 2 === 0 ? "north" : "south" } };
    if (number % lateEvery === 0) late.set(wamid, message);
    else early.push(message);
  }
  return { early, late };
}

export interface LateRegistration {
  /** Tells that a post was answered. */
  seen(post: Post): void;
  /** Registers whatever is left. Throws what a registration threw. */
  finish(): Promise<void>;
}

/** Registers each late message soon after its first event, many in one call. */
export function createLateRegistration(
  late: ReadonlyMap<string, TrackedMessage>,
  track: (messages: readonly TrackedMessage[]) => Promise<void>,
): LateRegistration {
  const left = new Map(late);
  let batch: TrackedMessage[] = [];
  let running: Promise<void> | null = null;
  let failure: { error: unknown } | null = null;
  const flush = async (): Promise<void> => {
    while (batch.length > 0) {
      const some = batch;
      batch = [];
      await track(some);
    }
  };
  return {
    seen({ subject }) {
      const message = subject.wamid === null ? undefined : left.get(subject.wamid);
      if (message === undefined) return;
      left.delete(message.wamid);
      batch.push(message);
      if (running !== null || batch.length < 20) return;
      running = flush()
        .catch((error: unknown) => {
          failure = { error };
        })
        .finally(() => {
          running = null;
        });
    },
    async finish() {
      await running;
      if (failure !== null) throw (failure as { error: unknown }).error;
      batch.push(...left.values());
      left.clear();
      await flush();
    },
  };
}
