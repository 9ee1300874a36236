import type { DueDelivery } from "../planned.ts";
import { messageSubject } from "./codes.ts";
import { type Conflicts, joinFacts } from "./message-facts.ts";
import type { MessageRow, Messages } from "./messages.ts";
import type { Names } from "./names.ts";
import type { createParking } from "./parking.ts";
import { messageFacts } from "./track.ts";

/** A user's word that a message is theirs. */
export interface MessageRegistration {
  readonly account: string;
  readonly wamid: string;
  readonly id?: string | undefined;
  readonly reference?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** When it was sent, in unix ms. */
  readonly sentAt?: number | undefined;
}

export type Registered =
  | { readonly result: "created" | "known"; readonly due: readonly DueDelivery[] }
  | { readonly result: "conflict"; readonly conflicts: Conflicts };

const unseen = { status: null, errorCode: null, times: {} };

/**
 * Registers a message and releases what was parked for it. Idempotent: what is known already is written
 * nowhere; facts that contradict the stored ones are given back, and nothing of the registration is kept.
 * For inside a transaction.
 */
export function createRegister(messages: Messages, names: Names, parking: ReturnType<typeof createParking>) {
  function addFacts(row: MessageRow, registration: MessageRegistration, at: number): Registered {
    const joined = joinFacts(row, registration);
    if ("conflicts" in joined) return { result: "conflict", conflicts: joined.conflicts };
    const wasRegistered = row.registered_at !== null;
    if (wasRegistered && !joined.isNew) return { result: "known", due: [] };
    messages.register(row.seq, { ...joined.facts, at });
    if (wasRegistered) return { result: "known", due: [] };
    return { result: "created", due: parking.release(messageSubject(row.seq), messageFacts(messages.get(row.seq)), at) };
  }

  return function register(registration: MessageRegistration, at: number): Registered {
    const account = names.idOf("account", registration.account);
    const row = messages.find(account, registration.wamid);
    if (row !== undefined) return addFacts(row, registration, at);
    const { id, reference, conversationId, metadata, sentAt } = registration;
    const facts = {
      serviceId: id ?? null,
      reference: reference ?? null,
      conversationId: conversationId ?? null,
      metadata: metadata === undefined ? null : JSON.stringify(metadata),
      sentAt: sentAt ?? null,
    };
    messages.add(account, registration.wamid, unseen, { ...facts, at }, at);
    return { result: "created", due: [] };
  };
}
