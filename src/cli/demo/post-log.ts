import type { AcceptedAt } from "../../sandbox/downstream/order.ts";
import type { ObservedPost } from "../../sandbox/start-sandbox.ts";

/** What was posted of one event, rightly signed. */
export interface PostedEvent extends AcceptedAt {
  readonly id: string;
  /** Null in truncated events and in those about no message. */
  readonly wamid: string | null;
  readonly status: string | null;
  readonly isTruncated: boolean;
  readonly body: Buffer;
  /** Posts answered 200. */
  readonly taken: number;
}

/** What the service saw of its posts, before the relay is asked. */
export interface PostLog {
  /** Gives the message that the post told of, when the relay took it. */
  note(post: ObservedPost): string | null;
  /** By event id. */
  readonly events: ReadonlyMap<string, PostedEvent>;
  readonly counts: Readonly<PostCounts>;
}

interface PostCounts {
  posts: number;
  /** Posts answered 200, of whichever event. */
  taken: number;
  malformed: number;
  /** Malformed ones answered 202. */
  quarantined: number;
  wronglySigned: number;
  /** Wrongly signed ones answered 401, or 429 to an address with too many of them. */
  refused: number;
  /** Answers that are none of these. */
  unexpected: number;
}

export function createPostLog(): PostLog {
  const events = new Map<string, { -readonly [K in keyof PostedEvent]: PostedEvent[K] }>();
  const counts: PostCounts = { posts: 0, taken: 0, malformed: 0, quarantined: 0, wronglySigned: 0, refused: 0, unexpected: 0 };
  const noteEvent = ({ eventId, body, answered, began, ended }: ObservedPost): string | null => {
    const isTaken = answered === 200;
    let event = events.get(eventId);
    if (event === undefined) {
      event = { ...readEvent(body), id: eventId, body, taken: 0, after: began, before: Number.POSITIVE_INFINITY };
      events.set(eventId, event);
    }
    // Which of two copies under way together was stored, the answers do not tell: the earlier begin and the earlier end hold both.
    event.after = Math.min(event.after, began);
    if (!isTaken) {
      counts.unexpected += 1;
      return null;
    }
    event.before = Math.min(event.before, ended);
    event.taken += 1;
    counts.taken += 1;
    return event.wamid;
  };
  return {
    events,
    counts,
    note(post) {
      counts.posts += 1;
      if (post.sort === "event") return noteEvent(post);
      const { answered } = post;
      if (post.sort === "malformed") {
        counts.malformed += 1;
        if (answered === 202) counts.quarantined += 1;
      } else {
        counts.wronglySigned += 1;
        if (answered === 401 || answered === 429) counts.refused += 1;
      }
      return null;
    },
  };
}

function readEvent(body: Buffer): Pick<PostedEvent, "wamid" | "status" | "isTruncated"> {
  const { data } = JSON.parse(body.toString("utf8")) as { data: Record<string, unknown> };
  const textOf = (value: unknown) => (typeof value === "string" ? value : null);
  return { wamid: textOf(data["wamid"]), status: textOf(data["status"]), isTruncated: data["truncated"] === true };
}
