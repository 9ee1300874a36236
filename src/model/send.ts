import type { AccountName } from "./ids.ts";

/**
 * What is sent once per key: a message, or the run of an automation, whose key is its reference.
 */
export const sendKinds = ["message", "run"] as const;
export type SendKind = (typeof sendKinds)[number];

/** Identifies one send. The same text is another key in another account, and for another kind. */
export interface SendKey {
  readonly account: AccountName;
  readonly kind: SendKind;
  readonly key: string;
}

/*
 * The states of a key. docs/concepts/sending.md has the same table for users.
 *
 * |         | begin                        | not done                       | done | unknown, or the process died |
 * |---------|------------------------------|--------------------------------|------|------------------------------|
 * | (free)  | calling                      |                                |      |                              |
 * | calling | refused                      | free; unknown after a resend   | done | unknown                      |
 * | unknown | calling, on a resend         |                                |      |                              |
 * | done    | refused                      |                                |      |                              |
 */
export const keyStates = ["calling", "done", "unknown"] as const;

export interface KeyHeld {
  readonly state: (typeof keyStates)[number];
  /** SHA-256 of the body, in hex. */
  readonly fingerprint: string;
  /**
   * Calls that may have had an effect: those of unknown outcome, the one in flight, and the one
   * that succeeded.
   */
  readonly attempts: number;
}

interface KeyClaim {
  readonly fingerprint: string;
  /** The number of calls of unknown outcome that the caller knows and sends again all the same. */
  readonly resend: number;
}

export interface SendClaim extends KeyClaim {
  /** The recipient, for people: a masked phone, or the id of an automation. */
  readonly about: string;
  readonly at: number;
}

export interface StoredSend extends KeyHeld {
  readonly about: string;
  readonly startedAt: number;
  /** The first answer; null unless the call is done. */
  readonly answer: SendAnswer | null;
}

export type SendAnswer = Readonly<Record<string, unknown>>;

export interface SendResult {
  readonly answer: SendAnswer;
  readonly replayed: boolean;
  /** False: it was sent, but is not stored yet. The relay retries until it is. */
  readonly stored: boolean;
}

export type SendEnd =
  | { readonly end: "not-done" | "unknown" }
  | {
      readonly end: "done";
      readonly at: number;
      readonly answer: SendAnswer;
      readonly sent: SentSubject;
    };

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

/**
 * The key once the call may begin; null when the key is held. A resend needs the number of attempts
 * from the last answer: a client that repeats the same request without an answer does not send a
 * third time.
 */
export function beginKey(held: KeyHeld | null, { fingerprint, resend }: KeyClaim): KeyHeld | null {
  if (held === null) return { state: "calling", fingerprint, attempts: 1 };
  if (held.state !== "unknown" || held.fingerprint !== fingerprint || held.attempts !== resend)
    return null;
  return { ...held, state: "calling", attempts: held.attempts + 1 };
}

/** The key after its call ended; null: free. A key that is not `calling` stays as it is. */
export function endKey(held: KeyHeld, end: SendEnd["end"]): KeyHeld | null {
  if (held.state !== "calling") return held;
  if (end !== "not-done") return { ...held, state: end };
  // The outcome of earlier calls is still unknown.
  return held.attempts === 1 ? null : { ...held, state: "unknown", attempts: held.attempts - 1 };
}
