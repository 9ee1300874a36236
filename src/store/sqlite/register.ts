import type { SentSubject } from "../../model/send.ts";
import { unobserved } from "../../model/tracking.ts";
import { factsTold, joinFacts, type MessageRegistration, type Registered } from "../registration.ts";
import type { DueDelivery, Rules } from "../rules.ts";
import { sentFacts } from "../service-port.ts";

import { messageSubject, type Names, runSubject } from "./names.ts";
import type { Parking } from "./parking.ts";
import { knownFacts, type MessageRow, type Messages, type Runs, runStateOf, stateOf } from "./track.ts";

/**
 * Registers a message and releases its parked events. Known facts write nothing. On a conflict it returns the conflicting
 * facts and stores nothing of the registration. Call it inside a transaction.
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
    messages.add(account, registration.wamid, unobserved, at, { ...factsTold(registration), at });
    return { result: "created", due: [] };
  };
}

export type RegisterSent = (account: string, sent: SentSubject, at: number) => readonly DueDelivery[];

interface Parts {
  messages: Messages;
  runs: Runs;
  names: Names;
  rules: Rules;
  register: ReturnType<typeof createRegister>;
  parking: Parking;
}

/** Registers a message or run that the relay sent, with its first status, and releases its parked events. Call it inside a transaction. */
export function createRegisterSent({ messages, runs, names, rules, register, parking }: Parts): RegisterSent {
  function registerMessage(account: string, sent: Extract<SentSubject, { type: "message" }>, at: number): readonly DueDelivery[] {
    const { wamid, status } = sent;
    const registered = register({ ...sentFacts(sent), account, sentAt: at }, at);
    const row = messages.find(names.idOf("account", account), wamid);
    if (row !== undefined) {
      const before = stateOf(row);
      const { state } = rules.stepMessage(before, { status, error: null, at });
      if (state !== before) messages.save(row.seq, state, at);
    }
    // A client registered other facts for this wamid first. They stay, and the answer to the send has ours.
    return registered.result === "conflict" ? [] : registered.due;
  }

  function registerRun(account: string, sent: Extract<SentSubject, { type: "run" }>, at: number): readonly DueDelivery[] {
    const { runId, reference, metadata } = sent;
    const accountId = names.idOf("account", account);
    const known = runs.find(accountId, runId);
    const before = known === undefined ? unobserved : runStateOf(known);
    const { state } = rules.stepRun(before, { status: "started", error: null, at });
    const seq = known?.seq ?? runs.add(accountId, runId, state, at);
    if (known !== undefined && state !== before) runs.save(seq, state, at);
    if (known !== undefined && known.registered_at !== null) return [];
    runs.register(seq, { reference, metadata: metadata === undefined ? null : JSON.stringify(metadata), at });
    return parking.release(runSubject(seq), at);
  }

  return (account, sent, at) => (sent.type === "message" ? registerMessage(account, sent, at) : registerRun(account, sent, at));
}
