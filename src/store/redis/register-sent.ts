import type { DueDelivery, Rules } from "../rules.ts";
import { type SentSubject, sentFacts } from "../service-port.ts";
import { messageName, runName } from "./keys.ts";
import type { Parking } from "./parking.ts";
import type { SubjectsOf } from "./put-subject.ts";
import type { Register } from "./register.ts";
import { messageStateOf, runStateOf, unseenSubject, withMessageState, withRunState } from "./rows.ts";
import type { Transaction } from "./transact.ts";

/** What is returned is filled when the step is committed. For inside one. */
export type RegisterSent = (tx: Transaction, account: string, sent: SentSubject, at: number) => Promise<readonly DueDelivery[]>;

interface Parts {
  readonly rules: Rules;
  readonly subjectsOf: SubjectsOf;
  readonly register: Register;
  readonly parking: Pick<Parking, "release">;
}

/** Registers a message or run that the relay sent itself, with its first status, and releases what was parked for it. */
export function createRegisterSent({ rules, subjectsOf, register, parking }: Parts): RegisterSent {
  async function registerMessage(tx: Transaction, account: string, sent: Extract<SentSubject, { type: "message" }>, at: number) {
    const { wamid, status } = sent;
    const subjects = subjectsOf(tx);
    const registered = await register(tx, subjects, { ...sentFacts(sent), account, sentAt: at }, at);
    const name = messageName(account, wamid);
    const row = await subjects.find(name);
    if (row !== null) {
      const before = messageStateOf(row);
      const { state } = rules.stepMessage(before, { status, errorCode: null, at });
      if (state !== before) subjects.put(name, withMessageState(row, state, at));
    }
    // Somebody told other facts of the very wamid that the service gave us only now. Theirs stay: sent is sent, and the answer has ours.
    return registered.result === "conflict" ? [] : registered.due;
  }

  async function registerRun(tx: Transaction, account: string, sent: Extract<SentSubject, { type: "run" }>, at: number) {
    const { runId, reference, metadata } = sent;
    const subjects = subjectsOf(tx);
    const name = runName(account, runId);
    const known = await subjects.find(name);
    const before = runStateOf(known ?? unseenSubject);
    const { state } = rules.stepRun(before, { status: "started", error: null, at });
    const row = known !== null && state === before ? known : withRunState(known ?? unseenSubject, state, at);
    if (row.registeredAt !== null) {
      if (row !== known) subjects.put(name, row);
      return [];
    }
    const told = metadata === undefined ? null : JSON.stringify(metadata);
    const after = { ...row, reference, metadata: told, registeredAt: at, updatedAt: at };
    return parking.release(tx, subjects, name, after, at);
  }

  return (tx, account, sent, at) => (sent.type === "message" ? registerMessage(tx, account, sent, at) : registerRun(tx, account, sent, at));
}
