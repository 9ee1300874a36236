import type { EventId, RunId, Wamid } from "../../model/ids.ts";

export type PostResult =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** Null for an answer that the relay does not document for this case, and for 5xx after the last try. */
      readonly answer: Answer | null;
      readonly said?: string;
      readonly tries: number;
      readonly tookMs: number;
    }
  | {
      readonly kind: "unanswered";
      readonly error: string;
      readonly tries: number;
      readonly tookMs: number;
    };

/** Reads the relay's answer. 429 is what an address gets that has sent too many bad signatures, and refuses like 401. */
export function readAnswer(status: number, body: string): Answer | null {
  if (status === 401 || status === 429) return "unauthorized";
  if (status !== 200 && status !== 202) return null;
  try {
    const { status: said, ...counts } = (JSON.parse(body) as Readonly<Record<string, unknown>> | null) ?? {};
    if (status === 202) return said === "quarantined" ? said : null;
    if (said === "accepted" && "events" in counts) return wordOf(counts);
    return said === "accepted" || said === "duplicate" ? said : null;
  } catch {
    return null;
  }
}

/** For a request with several items: what came of the most important of them. */
function wordOf(counts: Readonly<Record<string, unknown>>): Answer | null {
  const words = { events: "accepted", quarantined: "quarantined", unassigned: "unassigned", duplicates: "duplicate" } as const;
  const found = Object.entries(words).find(([key]) => Number(counts[key]) > 0);
  return found?.[1] ?? null;
}

export interface SenderSummary {
  /** Posts that ended, and the HTTP requests it took. */
  readonly posts: number;
  readonly tries: number;
  readonly accepted: number;
  readonly duplicate: number;
  readonly quarantined: number;
  readonly unassigned: number;
  readonly unauthorized: number;
  readonly otherStatuses: Readonly<Record<number, number>>;
  readonly unanswered: number;
  readonly bySort: Readonly<Record<Post["sort"], number>>;
  readonly tookMs: number;
}

interface SenderCounts {
  note(post: Post, result: PostResult): void;
  summary(tookMs: number): SenderSummary;
}

export function createSenderCounts(): SenderCounts {
  const byAnswer: Record<Answer, number> = { accepted: 0, duplicate: 0, quarantined: 0, unassigned: 0, unauthorized: 0 };
  const otherStatuses: Record<number, number> = {};
  const bySort = Object.fromEntries(postSorts.map((sort) => [sort, 0])) as Record<Post["sort"], number>;
  let posts = 0;
  let tries = 0;
  let unanswered = 0;
  return {
    note(post, result) {
      posts += 1;
      tries += result.tries;
      bySort[post.sort] += 1;
      if (result.kind === "unanswered") unanswered += 1;
      else if (result.answer === null) otherStatuses[result.status] = (otherStatuses[result.status] ?? 0) + 1;
      else byAnswer[result.answer] += 1;
    },
    summary: (tookMs) => ({
      posts,
      tries,
      ...byAnswer,
      otherStatuses: { ...otherStatuses },
      unanswered,
      bySort: { ...bySort },
      tookMs,
    }),
  };
}

/** What a post plays; summaries count by it. */
export const postSorts = [
  "status",
  "campaign",
  "automation",
  "truncated",
  "duplicate",
  "altered-duplicate",
  "malformed",
  "wrongly-signed",
] as const;
export type PostSort = (typeof postSorts)[number];

/** The relay's answers to a post that was received (DESIGN.md, "receive"). */
const answers = ["accepted", "duplicate", "quarantined", "unassigned", "unauthorized"] as const;
export type Answer = (typeof answers)[number];

/**
 * What the relay should answer. Duplicates may travel side by side, so it is unknown which of them
 * comes first: for an event, of all posts with its id one is `accepted` and each other is `duplicate`.
 */
export type Expectation =
  | { readonly of: "post"; readonly answer: "accepted" | "quarantined" | "unauthorized" }
  | { readonly of: "event"; readonly id: EventId };

export interface PostSubject {
  readonly id: EventId;
  readonly event: string;
  readonly wamid: Wamid | null;
  readonly runId: RunId | null;
  /** False for messages of campaigns, of which the receiver has never heard. */
  readonly ours: boolean;
}

export interface Post {
  readonly sort: PostSort;
  readonly body: Buffer;
  readonly signature: "right" | "wrong" | "absent";
  readonly subject: PostSubject;
  readonly expected: Expectation;
}
