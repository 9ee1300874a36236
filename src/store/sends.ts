import type { KeyHeld } from "../event/send-key.ts";

export interface SendClaim {
  readonly fingerprint: string;
  readonly resend: number;
  readonly about: string;
  /** Unix ms. */
  readonly at: number;
}

export interface StoredSend extends KeyHeld {
  readonly about: string;
  /** Unix ms. */
  readonly startedAt: number;
  readonly answer: Readonly<Record<string, unknown>> | null;
}

export type SendEnd =
  | { readonly end: "not-done" | "unknown" }
  | { readonly end: "done"; readonly at: number; readonly answer: Readonly<Record<string, unknown>>; readonly sent: SentSubject };

/** What was sent through the relay, as the service answered. */
export type SentSubject =
  | {
      readonly type: "message";
      readonly id: string | null;
      readonly wamid: string;
      readonly status: string;
      readonly conversationId: string | null;
      readonly reference: string | undefined;
      readonly metadata: Readonly<Record<string, unknown>> | undefined;
    }
  | {
      readonly type: "run";
      readonly runId: string;
      readonly reference: string;
      readonly metadata: Readonly<Record<string, unknown>> | undefined;
    };

/** What an answer of the service tells of a message that was sent; what it left out may be registered later. */
export function sentFacts({ wamid, id, conversationId, reference, metadata }: Extract<SentSubject, { type: "message" }>) {
  return { wamid, id: id ?? undefined, conversationId: conversationId ?? undefined, reference, metadata };
}
