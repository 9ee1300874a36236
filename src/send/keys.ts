import { createHash } from "node:crypto";
import { RelayError } from "../event/errors.ts";
import type { KeyHeld, SendKey, SendKind } from "../event/send-key.ts";

/** What sending asks of the store. Each step is on the disk, or with the other processes, when its promise resolves. */
export interface SendStore {
  /** A call of a process that is no more counts as one of unknown outcome. */
  find(key: SendKey): Promise<StoredSend | null>;
  /**
   * Takes the key as `beginKey` says; null when it is taken, else what holds it. In one step. An error whose `mayBeDone`
   * is true leaves open whether it was taken.
   */
  begin(key: SendKey, claim: StoredClaim): Promise<StoredSend | null>;
  /** Ends the call as `endKey` says; one that is done is registered in the same step. May be told twice. */
  settle(key: SendKey, ended: Ended): Promise<void>;
}

export interface StoredClaim {
  readonly fingerprint: string;
  readonly resend: number;
  /** To whom or what it goes, for people: a masked phone, or the id of an automation. */
  readonly about: string;
  /** Unix ms. */
  readonly at: number;
}

export interface StoredSend extends KeyHeld {
  readonly about: string;
  /** Unix ms at which its latest call was begun. */
  readonly startedAt: number;
  /** What was answered first; null unless it is done. */
  readonly answer: SendAnswer | null;
}

export type SendAnswer = Readonly<Record<string, unknown>>;

export type Ended =
  | { readonly end: "not-done" }
  | { readonly end: "unknown" }
  /** `at`: unix ms. */
  | { readonly end: "done"; readonly at: number; readonly answer: SendAnswer; readonly sent: SentMessage | StartedRun };

/** A message as it is to be registered. */
interface SentMessage {
  readonly type: "message";
  /** The service's; null when its answer had none. */
  readonly id: string | null;
  readonly wamid: string;
  readonly status: string;
  readonly conversationId: string | null;
  readonly reference: string | undefined;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

/** A run as it is to be registered. */
interface StartedRun {
  readonly type: "run";
  readonly runId: string;
  readonly reference: string;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

const words: Record<SendKind, { readonly what: string; readonly check: string; readonly key: string }> = {
  message: {
    what: "message",
    check: "look whether the message appears in the chat",
    key: "idempotency key",
  },
  run: {
    what: "run",
    check: "look at the service whether the automation has run for this phone",
    key: "reference",
  },
};

export interface SendRequest {
  readonly key: SendKey;
  readonly fingerprint: string;
  readonly about: string;
  readonly resend: number;
}

/**
 * What is to be done about a key that somebody holds: the first answer; null when the call may begin; or an
 * error. Throws `idempotency_conflict`, `outcome_unknown`, or `conflict` while another process makes the call.
 */
export function checkHeldKey(held: StoredSend | null, request: SendRequest): SendAnswer | null {
  if (held === null) return null;
  refuseOther(held, request);
  if (held.state === "done") return held.answer;
  if (held.state === "calling") {
    throw new RelayError("conflict", `the call under this ${words[request.key.kind].key} is being made by another process; ask again`);
  }
  if (held.tries === request.resend) return null;
  throw outcomeUnknown(request.key, { ...held, reason: null });
}

/** Throws `idempotency_conflict` when the key stands for another body. */
export function refuseOther(held: Pick<StoredSend, "fingerprint" | "about"> & { answer?: SendAnswer | null }, request: SendRequest): void {
  if (held.fingerprint === request.fingerprint) return;
  const { key, what } = words[request.key.kind];
  const { answer = null } = held;
  const runId = answer?.["runId"];
  throw new RelayError(
    "idempotency_conflict",
    request.key.kind === "message"
      ? `this ${key} stands for another ${what}`
      : `this ${key} stands for another ${what}: ${typeof runId === "string" ? `${runId} of ` : ""}the automation ${held.about}, not this one of ${request.about}`,
    {
      [request.key.kind === "message" ? "idempotencyKey" : "reference"]: request.key.key,
      first: { about: held.about, ...(typeof runId === "string" ? { runId } : {}) },
      given: { about: request.about },
    },
  );
}

/** `reason`: why nobody knows, when it was this very call; null: an earlier one. */
export function outcomeUnknown(
  key: SendKey,
  held: { readonly startedAt: number; readonly tries: number; readonly about: string; readonly reason: string | null },
): RelayError {
  const { what, check } = words[key.kind];
  const triedAt = new Date(held.startedAt).toISOString();
  const why = held.reason === null ? `the call of ${triedAt} had no known end` : held.reason;
  return new RelayError("outcome_unknown", `nobody knows whether the ${what} was sent: ${why}; ${check}`, {
    [key.kind === "message" ? "idempotencyKey" : "reference"]: key.key,
    triedAt,
    tries: held.tries,
    about: held.about,
    justNow: held.reason !== null,
    check,
    resend: held.tries,
  });
}

/** Stands for what is to be sent: equal for bodies that say the same, in whatever order their keys come. SHA-256 in hex. */
export function fingerprintOf(body: unknown): string {
  return createHash("sha256").update(canonical(body)).digest("hex");
}

/** JSON with sorted keys; what is undefined counts as not there. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
