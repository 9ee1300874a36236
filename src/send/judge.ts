import { RelayError } from "../event/errors.ts";
import type { SendKey, SendKind } from "../event/send-key.ts";
import type { SendAnswer, StoredSend } from "./port.ts";

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

export interface Asked {
  readonly key: SendKey;
  readonly fingerprint: string;
  readonly about: string;
  readonly resend: number;
}

/**
 * What is to be done about a key that somebody holds: the first answer; null when the call may begin; or an
 * error. Throws `idempotency_conflict`, `outcome_unknown`, or `conflict` while another process makes the call.
 */
export function judge(held: StoredSend | null, asked: Asked): SendAnswer | null {
  if (held === null) return null;
  refuseOther(held, asked);
  if (held.state === "done") return held.answer;
  if (held.state === "calling") {
    throw new RelayError("conflict", `the call under this ${words[asked.key.kind].key} is being made by another process; ask again`);
  }
  if (held.tries === asked.resend) return null;
  throw outcomeUnknown(asked.key, { ...held, reason: null });
}

/** Throws `idempotency_conflict` when the key stands for another body. */
export function refuseOther(held: Pick<StoredSend, "fingerprint" | "about"> & { answer?: SendAnswer | null }, asked: Asked): void {
  if (held.fingerprint === asked.fingerprint) return;
  const { key, what } = words[asked.key.kind];
  const { answer = null } = held;
  const runId = answer?.["runId"];
  throw new RelayError(
    "idempotency_conflict",
    asked.key.kind === "message"
      ? `this ${key} stands for another ${what}`
      : `this ${key} stands for another ${what}: ${typeof runId === "string" ? `${runId} of ` : ""}the automation ${held.about}, not this one of ${asked.about}`,
    {
      [asked.key.kind === "message" ? "idempotencyKey" : "reference"]: asked.key.key,
      first: { about: held.about, ...(typeof runId === "string" ? { runId } : {}) },
      given: { about: asked.about },
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
