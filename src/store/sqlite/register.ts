import { unseenMessage } from "../facts.ts";
import { factsTold, joinFacts, type MessageRegistration, type Registered } from "../registration.ts";
import { messageSubject } from "./codes.ts";
import { knownFacts, type MessageRow, type Messages } from "./messages.ts";
import type { Names } from "./names.ts";
import type { Parking } from "./parking.ts";

/**
 * Registers a message and releases what was parked for it. Idempotent: what is known already is written
 * nowhere; facts that contradict the stored ones are given back, and nothing of the registration is kept.
 * For inside a transaction.
 */
export function createRegister(messages: Messages, names: Names, parking: Parking) {
  function addFacts(row: MessageRow, registration: MessageRegistration, at: number): Registered {
    const joined = joinFacts(knownFacts(row), registration);
    if ("conflicts" in joined) return { result: "conflict", conflicts: joined.conflicts };
    messages.revive(row);
    const wasRegistered = row.registered_at !== null;
    if (wasRegistered && !joined.isNew) return { result: "known", due: [] };
    messages.register(row.seq, { ...joined.facts, at });
    if (wasRegistered) return { result: "known", due: [] };
    return { result: "created", due: parking.release(messageSubject(row.seq), at) };
  }

  return function register(registration: MessageRegistration, at: number): Registered {
    const account = names.idOf("account", registration.account);
    const row = messages.find(account, registration.wamid);
    if (row !== undefined) return addFacts(row, registration, at);
    messages.add(account, registration.wamid, unseenMessage, { ...factsTold(registration), at }, at);
    return { result: "created", due: [] };
  };
}
