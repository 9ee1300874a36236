import type { EventId, RunId, Wamid } from "../../model/ids.ts";

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
export const answers = ["accepted", "duplicate", "quarantined", "unassigned", "unauthorized"] as const;
export type Answer = (typeof answers)[number];

/**
 * What the relay should answer. Duplicates may travel side by side, so it is unknown which of them
 * comes first: for an event, of all posts with its id one is `accepted` and each other is `duplicate`.
 */
export type Expectation =
  | { readonly of: "post"; readonly answer: "accepted" | "quarantined" | "unauthorized" }
  | { readonly of: "event"; readonly id: EventId };

/** What a post is about. */
export interface PostSubject {
  readonly id: EventId;
  /** Event kind. */
  readonly event: string;
  readonly wamid: Wamid | null;
  readonly runId: RunId | null;
  /** False for messages of campaigns, of which the receiver has never heard. */
  readonly ours: boolean;
}

/** One HTTP request to the relay, before it is signed. */
export interface Post {
  readonly sort: PostSort;
  readonly body: Buffer;
  readonly signature: "right" | "wrong" | "absent";
  readonly subject: PostSubject;
  readonly expected: Expectation;
}
