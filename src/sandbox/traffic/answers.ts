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
    const { status: said, ...counts } =
      (JSON.parse(body) as Readonly<Record<string, unknown>> | null) ?? {};
    if (status === 202) return said === "quarantined" ? said : null;
    if (said === "accepted" && "events" in counts) return wordOf(counts);
    return said === "accepted" || said === "duplicate" ? said : null;
  } catch {
    return null;
  }
}

/** For several items: what came of the most important. */
function wordOf(counts: Readonly<Record<string, unknown>>): Answer | null {
  const words = {
    events: "accepted",
    quarantined: "quarantined",
    unassigned: "unassigned",
    duplicates: "duplicate",
  } as const;
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

/**
 * Duplicates may travel side by side: of all posts of one event, one is `accepted` and each other
 * is `duplicate`.
 */
export type Expectation =
  | { readonly of: "post"; readonly answer: "accepted" | "quarantined" | "unauthorized" }
  | { readonly of: "event"; readonly id: EventId };

export interface PostSubject {
  readonly id: EventId;
  readonly event: string;
  readonly wamid: Wamid | null;
  readonly runId: RunId | null;
}

export interface Post {
  readonly sort: PostSort;
  readonly body: Buffer;
  readonly signature: "right" | "wrong" | "absent";
  readonly subject: PostSubject;
  readonly expected: Expectation;
}

/**
 * `any`: the receiver need not be a relay, so any 2xx is enough, and any 4xx for a wrong signature.
 */
type JudgedBy = "relay" | "any";

/** `known`: the relay may have had these events before. */
export function createJudge(by: JudgedBy, { known = false } = {}) {
  const seen = new Map<EventId, { accepted: number; duplicate: number; failed: boolean }>();
  return {
    note({ expected }: Post, result: PostResult): string | null {
      const fault = faultOf(by, expected, result);
      if (by === "relay" && expected.of === "event") {
        const entry = seen.get(expected.id) ?? { accepted: 0, duplicate: 0, failed: false };
        seen.set(expected.id, entry);
        // The answer "accepted" to an earlier try may have been lost.
        if (fault !== null || result.tries > 1) entry.failed = true;
        if (fault !== null) return fault;
        if (result.kind === "answered" && result.answer === "duplicate") entry.duplicate += 1;
        else entry.accepted += 1;
      }
      return fault;
    },
    ended(): string[] {
      const faults: string[] = [];
      for (const [id, { accepted, duplicate, failed }] of seen) {
        if (accepted > 1) faults.push(`event ${id}: accepted ${accepted} times`);
        // A post that failed may have been the accepted one.
        if (accepted === 0 && duplicate > 0 && !failed && !known)
          faults.push(`event ${id}: duplicate, and never accepted`);
      }
      return faults;
    },
  };
}

function faultOf(by: JudgedBy, expected: Expectation, result: PostResult): string | null {
  if (result.kind === "unanswered") return `no answer (${result.error})`;
  const { answer, status } = result;
  const wanted = expected.of === "event" ? "accepted" : expected.answer;
  const isRight = answer === wanted || (expected.of === "event" && answer === "duplicate");
  if (isRight || (by === "any" && isRightAnywhere(wanted, status))) return null;
  return `${wanted} expected, got ${answer === null || answer === "unauthorized" ? status : answer}`;
}

function isRightAnywhere(wanted: Answer, status: number): boolean {
  if (wanted === "unauthorized") return status >= 400 && status < 500;
  return wanted === "accepted" ? status >= 200 && status < 300 : status < 500;
}
