import type { EventId } from "../../model/ids.ts";
import type { Post } from "./post.ts";
import type { PostResult } from "./post-result.ts";

/** What the relay has said about one event id, over all posts of it. */
export interface Acknowledgement {
  /** Answers of each kind. More than one `accepted` breaks promise 2 (DESIGN.md, "Promises"). */
  readonly accepted: number;
  readonly duplicate: number;
  /** Posts that ended without a 2xx. */
  readonly refused: number;
  /** True when a post of it was tried more than once: the try whose answer was lost may have been the accepted one. */
  readonly retried: boolean;
  /**
   * Ticks of the sender's own counter between which the event was accepted: an event whose `before`
   * is less than another's `after` was accepted first. `before` is Infinity while there is no 2xx.
   */
  readonly after: number;
  readonly before: number;
}

export interface Acknowledgements {
  /** `from` and `to` are the ticks at which the post began and ended. */
  note(post: Post, result: PostResult, from: number, to: number): void;
  /** By event id, the posts that are events and rightly signed. */
  readonly byEvent: ReadonlyMap<EventId, Acknowledgement>;
}

/** The sender's record of what was acknowledged, to compare with what is stored. About 200 bytes an event. */
export function createAcknowledgements(): Acknowledgements {
  const byEvent = new Map<EventId, { -readonly [K in keyof Acknowledgement]: Acknowledgement[K] }>();
  return {
    byEvent,
    note(post, result, from, to) {
      if (post.expected.of !== "event") return;
      let known = byEvent.get(post.expected.id);
      if (known === undefined) {
        known = { accepted: 0, duplicate: 0, refused: 0, retried: false, after: from, before: Number.POSITIVE_INFINITY };
        byEvent.set(post.expected.id, known);
      }
      known.retried ||= result.tries > 1;
      const answer = result.kind === "answered" ? result.answer : null;
      if (answer !== "accepted" && answer !== "duplicate") {
        known.refused += 1;
        if (known.accepted === 0) known.after = Math.min(known.after, from);
        return;
      }
      known[answer] += 1;
      // The answer "accepted" identifies the post; short of that it was some post begun by now.
      if (answer === "accepted") known.after = from;
      else if (known.accepted === 0) known.after = Math.min(known.after, from);
      known.before = Math.min(known.before, to);
    },
  };
}
