import type { SentSubject } from "../../model/send.ts";
import { unobserved } from "../../model/tracking.ts";
import { type MessageRegistration, registerMessage } from "../../track/registration.ts";
import type { DueDelivery, Registered, Rules } from "../rules.ts";

import { sentRegistration } from "../service-port.ts";

import { messageSubject, type Names, runSubject } from "./names.ts";
import type { Parking } from "./parking.ts";
import { knownMessage, type Messages, type Runs, runStateOf, stateOf } from "./track.ts";

/**
 * Registers a message and releases its parked events. Known facts write nothing. On a conflict it returns the conflicting
 * facts and stores nothing of the registration. Call it inside a transaction.
 */
export function createRegister(messages: Messages, names: Names, parking: Parking) {
  return function register(registration: MessageRegistration, at: number): Registered {
    const account = names.idOf("account", registration.account);
    const row = messages.find(account, registration.wamid);
    const registered = registerMessage(row === undefined ? null : knownMessage(row), registration);
    if (registered.result === "conflict") return registered;
    const { result, facts } = registered;
    if (row === undefined) {
      messages.add(account, registration.wamid, unobserved, at, facts === null ? undefined : { ...facts, at });
      return { result, due: [] };
    }
    messages.revive(row);
    if (facts !== null) messages.register(row.seq, { ...facts, at });
    return { result, due: result === "created" ? parking.release(messageSubject(row.seq), at) : [] };
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
    const registered = register(sentRegistration(account, sent, at), at);
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
