import { createHash } from "node:crypto";
import { RelayError } from "../model/errors.ts";
import type { SendAnswer, SendClaim, SendEnd, SendKey, SendKind, StoredSend } from "../model/send.ts";

/** A resolved step is durable and visible to other processes. */
export interface SendStore {
  /** A call of a dead process counts as one of unknown outcome. */
  find(key: SendKey): Promise<StoredSend | null>;
  /** Null on success, else what holds the key. After an error with `mayBeDone`, the key may be claimed. */
  begin(key: SendKey, claim: SendClaim): Promise<StoredSend | null>;
  /** Registers a successful call in the same step. Idempotent. */
  settle(key: SendKey, ended: SendEnd): Promise<void>;
}

interface Words {
  readonly what: string;
  readonly done: string;
  readonly check: string;
  readonly key: string;
  /** Of `details`. */
  readonly field: string;
}

const words: Record<SendKind, Words> = {
  message: {
    what: "message",
    done: "the message was sent",
    check: "check whether the message appears in the chat",
    key: "idempotency key",
    field: "idempotencyKey",
  },
  run: {
    what: "run",
    done: "the run was started",
    check: "check at the service whether the automation ran for this phone",
    key: "reference",
    field: "reference",
  },
};

export interface SendRequest {
  readonly key: SendKey;
  readonly fingerprint: string;
  readonly about: string;
  readonly resend: number;
}

/** Null when the call may start. Throws `idempotency_conflict`, `outcome_unknown`, or `conflict` while the call is in flight. */
export function checkHeldKey(held: StoredSend | null, request: SendRequest): SendAnswer | null {
  if (held === null) return null;
  refuseOther(held, request);
  if (held.state === "done") return held.answer;
  if (held.state === "calling") {
    throw inFlight(request.key);
  }
  if (held.attempts === request.resend) return null;
  throw outcomeUnknown(request.key, { ...held, reason: null });
}

export function inFlight({ kind }: SendKey): RelayError {
  return new RelayError("conflict", `a call under this ${words[kind].key} is in flight; retry`, undefined, { retryAfterMs: 1_000 });
}

/** Throws `idempotency_conflict`. */
export function refuseOther(held: Pick<StoredSend, "fingerprint" | "about"> & { answer?: SendAnswer | null }, request: SendRequest): void {
  if (held.fingerprint === request.fingerprint) return;
  const { key, what, field } = words[request.key.kind];
  const { answer = null } = held;
  const runId = answer?.["runId"];
  throw new RelayError(
    "idempotency_conflict",
    request.key.kind === "message"
      ? `this ${key} belongs to another ${what}`
      : `this ${key} belongs to another ${what}: ${typeof runId === "string" ? `${runId} of ` : ""}the automation ${held.about}, not this one of ${request.about}`,
    {
      [field]: request.key.key,
      first: { about: held.about, ...(typeof runId === "string" ? { runId } : {}) },
      given: { about: request.about },
    },
  );
}

/** `reason`: why this call's outcome is unknown; null: an earlier call's is. */
export function outcomeUnknown(
  key: SendKey,
  held: { readonly startedAt: number; readonly attempts: number; readonly about: string; readonly reason: string | null },
): RelayError {
  const { done, check, field } = words[key.kind];
  const attemptedAt = new Date(held.startedAt).toISOString();
  const why = held.reason === null ? `the call of ${attemptedAt} got no answer` : held.reason;
  return new RelayError("outcome_unknown", `it is unknown whether ${done}: ${why}; ${check}`, {
    [field]: key.key,
    attemptedAt,
    attempts: held.attempts,
    about: held.about,
    justNow: held.reason !== null,
    check,
    resend: held.attempts,
  });
}

/** Whatever the order of the keys. */
export function fingerprintOf(body: unknown): string {
  return createHash("sha256").update(canonical(body)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
