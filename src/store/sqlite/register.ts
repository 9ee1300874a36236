import { RelayError } from "../../event/errors.ts";
import type { DueDelivery } from "../planned.ts";
import { messageSubject } from "./codes.ts";
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
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

const unseen = { status: null, errorCode: null, times: {} };

/** Registers a message and releases what was parked for it. Idempotent; for inside a transaction. */
export function createRegister(messages: Messages, names: Names, parking: ReturnType<typeof createParking>) {
  return function register(registration: MessageRegistration, at: number): { created: boolean; due: DueDelivery[] } {
    const account = names.idOf("account", registration.account);
    const facts = {
      serviceId: registration.id ?? null,
      reference: registration.reference ?? null,
      metadata: registration.metadata === undefined ? null : JSON.stringify(registration.metadata),
      at,
    };
    const row = messages.find(account, registration.wamid);
    if (row === undefined) {
      messages.add(account, registration.wamid, unseen, facts, at);
      return { created: true, due: [] };
    }
    refuseConflict(row, registration);
    messages.register(row.seq, facts);
    const now = messages.get(row.seq);
    const due = row.registered_at === null ? parking.release(messageSubject(row.seq), messageFacts(now), at) : [];
    return { created: row.registered_at === null, due };
  };
}

function refuseConflict(row: MessageRow, { id, reference }: MessageRegistration): void {
  const details: Record<string, { stored: string; given: string }> = {};
  if (id !== undefined && row.service_id !== null && row.service_id !== id) details["id"] = { stored: row.service_id, given: id };
  if (reference !== undefined && row.reference !== null && row.reference !== reference) {
    details["reference"] = { stored: row.reference, given: reference };
  }
  const fields = Object.keys(details);
  if (fields.length > 0) throw new RelayError("conflict", `this wamid is registered with another ${fields.join(" and ")}`, details);
}
