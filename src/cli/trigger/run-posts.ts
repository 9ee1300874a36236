import type { Judge } from "../../sandbox/fixtures/judge-answers.ts";
import { machineClock } from "../../sandbox/machine-clock.ts";
import type { Post } from "../../sandbox/traffic/post.ts";
import { createSender } from "../../sandbox/traffic/sender.ts";
import type { OutcomeNotes } from "./outcome.ts";
import type { TriggerShow } from "./show.ts";
import type { Target } from "./target.ts";

export interface Posting {
  readonly target: Target;
  readonly concurrency: number;
  readonly rate: number | undefined;
  readonly judge: Judge;
  readonly notes: OutcomeNotes;
  readonly show: TriggerShow;
  readonly signal: AbortSignal;
}

/** Each post goes out once: what this shows is the answer, and not what a retry makes of it. */
const once = { tries: 1, firstMs: 0, longestMs: 0 };

/** Posts them all, signed with `secret`. Ends early when nobody answers at all. */
export async function runPosts(
  posts: Iterable<Post>,
  { target, concurrency, rate, judge, notes, show, signal }: Posting,
  secret: string,
): Promise<void> {
  const sender = createSender({
    url: target.url,
    signature: target.signature,
    secret,
    clock: machineClock,
    concurrency,
    retry: once,
    keepAcknowledgements: false,
    ...(rate === undefined ? {} : { rate }),
  });
  const nobody = new AbortController();
  try {
    await sender.run(posts, {
      signal: AbortSignal.any([signal, nobody.signal]),
      onResult(post, result) {
        const fault = judge.note(post, result);
        notes.note(post, result, fault);
        show.post(post, result, fault);
        if (result.kind === "unanswered" && result.error === "ECONNREFUSED") nobody.abort();
      },
    });
  } finally {
    await sender.close();
  }
}
