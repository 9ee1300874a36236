import { unseenRun } from "../facts.ts";
import type { DueDelivery } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { type SentSubject, sentFacts } from "../sends.ts";
import { runSubject } from "./codes.ts";
import { type Messages, stateOf } from "./messages.ts";
import type { Names } from "./names.ts";
import type { Parking } from "./parking.ts";
import type { createRegister } from "./register.ts";
import { type Runs, runStateOf } from "./runs.ts";

export type RegisterSent = (account: string, sent: SentSubject, at: number) => readonly DueDelivery[];

interface Parts {
  messages: Messages;
  runs: Runs;
  names: Names;
  rules: Rules;
  register: ReturnType<typeof createRegister>;
  parking: Parking;
}

/** Registers a message or run that the relay sent itself, with its first status, and releases what was parked for it. For inside a transaction. */
export function createRegisterSent({ messages, runs, names, rules, register, parking }: Parts): RegisterSent {
  function registerMessage(account: string, sent: Extract<SentSubject, { type: "message" }>, at: number): readonly DueDelivery[] {
    const { wamid, status } = sent;
    const registered = register({ ...sentFacts(sent), account, sentAt: at }, at);
    const row = messages.find(names.idOf("account", account), wamid);
    if (row !== undefined) {
      const before = stateOf(row);
      const { state } = rules.stepMessage(before, { status, errorCode: null, at });
      if (state !== before) messages.save(row.seq, state, at);
    }
    // Somebody told other facts of the very wamid that the service gave us only now. Theirs stay: sent is sent, and the answer has ours.
    return registered.result === "conflict" ? [] : registered.due;
  }

  function registerRun(account: string, sent: Extract<SentSubject, { type: "run" }>, at: number): readonly DueDelivery[] {
    const { runId, reference, metadata } = sent;
    const accountId = names.idOf("account", account);
    const known = runs.find(accountId, runId);
    const before = known === undefined ? unseenRun : runStateOf(known);
    const { state } = rules.stepRun(before, { status: "started", error: null, at });
    const seq = known?.seq ?? runs.add(accountId, runId, state, at);
    if (known !== undefined && state !== before) runs.save(seq, state, at);
    if (known !== undefined && known.registered_at !== null) return [];
    runs.register(seq, { reference, metadata: metadata === undefined ? null : JSON.stringify(metadata), at });
    return parking.release(runSubject(seq), at);
  }

  return (account, sent, at) => (sent.type === "message" ? registerMessage(account, sent, at) : registerRun(account, sent, at));
}
