import type { EventId } from "../../src/model/ids.ts";
import type { Post, PostResult } from "../../src/sandbox/traffic/post-result.ts";
import type { Acknowledgement } from "../../src/sandbox/traffic/sender.ts";

/** What is wrong with the answer to a post that is no event; null when it is the expected one. Events: see {@link unexpectedOfEvents}. */
export function unexpectedOfPost(post: Post, result: PostResult): string | null {
  if (post.expected.of === "event") return null;
  const { answer } = post.expected;
  if (result.kind === "unanswered") return `${post.sort}: ${answer} expected, no answer (${result.error})`;
  return result.answer === answer ? null : `${post.sort}: ${answer} expected, got ${result.answer ?? result.status}`;
}

/**
 * What is wrong with the answers over all posts of each event id: exactly one must be `accepted`, each
 * other `duplicate`. Where a try was repeated the answer `accepted` may have been lost on the way.
 */
export function unexpectedOfEvents(byEvent: ReadonlyMap<EventId, Acknowledgement>): string[] {
  const faults: string[] = [];
  for (const [id, { accepted, duplicate, refused, retried }] of byEvent) {
    if (refused > 0) faults.push(`event ${id}: ${refused} posts without a 2xx`);
    if (accepted > 1) faults.push(`event ${id}: accepted ${accepted} times`);
    if (accepted === 0 && duplicate > 0 && !retried) faults.push(`event ${id}: duplicate ${duplicate} times and never accepted`);
  }
  return faults;
}
