import { setTimeout as wait } from "node:timers/promises";
import { createRandom, type Random } from "../../src/sandbox/ids.ts";
import type { Post } from "../../src/sandbox/traffic/answers.ts";
import type { Sender } from "../../src/sandbox/traffic/sender.ts";
import type { RelayProcess } from "../harness/relay-process.ts";
import { openSender, signedPosts } from "../harness/sender.ts";

/** What the receivers have said. */
export interface Load {
  /** Posts that ended with a 2xx so far. */
  answered(): number;
  /** HTTP requests so far that got no 2xx. */
  refused(): number;
  /** Unix ms of the last 2xx. */
  lastAnswerAt(): number;
  /** Ids of events with a 2xx, and how often each was said to be `accepted`. */
  readonly accepted: ReadonlyMap<string, number>;
  readonly quarantined: () => number;
  /** Wamids whose registration was acknowledged. */
  readonly registered: ReadonlySet<string>;
  /** Ends it; resolves when nothing is under way. */
  stop(): Promise<void>;
}

const concurrency = 24;

/**
 * The usual traffic, each post at one of the receivers or at both at the same instant, again and
 * again until it is taken: at the other one next, as a load balancer does. A part of the messages
 * is registered meanwhile, at either or both.
 */
export function startLoad(
  receivers: readonly RelayProcess[],
  seed: string,
  postsPerSecond: number,
): Load {
  const random = createRandom(`${seed} load`);
  const senders = receivers.map((relay) =>
    openSender(relay, {
      url: relay.webhookUrl,
      concurrency: concurrency * 2,
      retry: { tries: 1, waitMs: 0 },
      timeoutMs: 5000,
    }),
  );
  const posts = signedPosts(seed);
  const accepted = new Map<string, number>();
  const registered = new Set<string>();
  const toRegister: string[] = [];
  const chosen = new Set<string>();
  const count = { answered: 0, refused: 0, quarantined: 0, lastAnswerAt: 0 };
  let stopped = false;

  /** Until somebody takes it, or the end. */
  async function postAt(post: Post, first: number): Promise<void> {
    for (let at = first; ; at += 1) {
      const result = await (senders[at % senders.length] as Sender).post(post);
      const answer = result.kind === "answered" ? result.answer : null;
      if (answer !== null) {
        count.answered += 1;
        count.lastAnswerAt = Date.now();
        if (answer === "quarantined") count.quarantined += 1;
        if (post.expected.of === "event") {
          const { id } = post.expected;
          accepted.set(id, (accepted.get(id) ?? 0) + (answer === "accepted" ? 1 : 0));
        }
        return;
      }
      count.refused += 1;
      if (stopped) return;
      await wait(100 + random.below(120));
    }
  }

  async function lane(pick: Random): Promise<void> {
    while (!stopped) {
      const next = posts.next();
      if (next.done === true) return;
      const post = next.value;
      const { wamid } = post.subject;
      if (wamid !== null && post.sort === "status" && !chosen.has(wamid)) {
        chosen.add(wamid);
        // Some before the first event, some while it is taken, some after.
        if (pick.chance(0.4)) toRegister.push(wamid);
      }
      const first = pick.below(senders.length);
      const begun = Date.now();
      await Promise.all(
        pick.chance(0.3) ? senders.map((_, n) => postAt(post, first + n)) : [postAt(post, first)],
      );
      await wait(Math.max(0, (concurrency * 1000) / postsPerSecond - (Date.now() - begun)));
    }
  }

  async function register(pick: Random): Promise<void> {
    while (!stopped || toRegister.length > 0) {
      const batch = toRegister.splice(0, 20);
      const body = batch.map((wamid) => ({
        account: "main",
        wamid,
        reference: `order of ${wamid}`,
      }));
      const ask = (relay: RelayProcess) =>
        relay.ask("/v1/messages/track", { method: "POST", body }).catch(() => null);
      for (let done = batch.length === 0; !done; ) {
        const at = pick.below(receivers.length);
        const answers = await Promise.all(
          (pick.chance(0.3) ? receivers : [receivers[at] as RelayProcess]).map(ask),
        );
        done = answers.some((answer) => answer?.status === 200);
        if (!done) await wait(100);
      }
      for (const wamid of batch) registered.add(wamid);
      await wait(20);
    }
  }

  const under = [
    ...Array.from({ length: concurrency }, (_, n) => lane(random.fork(`lane ${n}`))),
    register(random.fork("one")),
    register(random.fork("two")),
  ];
  return {
    answered: () => count.answered,
    refused: () => count.refused,
    lastAnswerAt: () => count.lastAnswerAt,
    quarantined: () => count.quarantined,
    accepted,
    registered,
    async stop() {
      stopped = true;
      await Promise.all(under);
    },
  };
}
