import type { EventId, RunId, Wamid } from "../../model/ids.ts";

export type PostResult = { readonly tries: number; readonly tookMs: number } & (
  | {
      readonly kind: "answered";
      readonly status: number;
      /** Null for an answer that the relay does not document, and for 5xx after the last try. */
      readonly answer: Answer | null;
      readonly said?: string;
    }
  | { readonly kind: "unanswered"; readonly error: string }
);

/** 429 is for an address with too many bad signatures, and refuses like 401. */
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

/** For several items: what came of the most important. */
function wordOf(counts: Readonly<Record<string, unknown>>): Answer | null {
  const words = { events: "accepted", quarantined: "quarantined", unassigned: "unassigned", duplicates: "duplicate" } as const;
  const found = Object.entries(words).find(([key]) => Number(counts[key]) > 0);
  return found?.[1] ?? null;
}

export type PostSort =
  | "status"
  | "campaign"
  | "automation"
  | "truncated"
  | "duplicate"
  | "altered-duplicate"
  | "malformed"
  | "wrongly-signed";

export type Answer = "accepted" | "duplicate" | "quarantined" | "unassigned" | "unauthorized";

/** Duplicates may travel side by side: of all posts of one event, one is `accepted` and each other is `duplicate`. */
export type Expectation =
  | { readonly of: "post"; readonly answer: "accepted" | "quarantined" | "unauthorized" }
  | { readonly of: "event"; readonly id: EventId };

export interface PostSubject {
  readonly id: EventId;
  readonly event: string;
  readonly wamid: Wamid | null;
  readonly runId: RunId | null;
  /** False for campaigns' messages, which the receiver does not know. */
  readonly ours: boolean;
}

export interface Post {
  readonly sort: PostSort;
  readonly body: Buffer;
  readonly signature: "right" | "wrong" | "absent";
  readonly subject: PostSubject;
  readonly expected: Expectation;
}
