import type { SentSubject } from "../../model/send.ts";
import type { MessageStatus, RunStatus } from "../../model/statuses.ts";
import { type MessageFacts, type MessageRegistration, registerMessage } from "../../track/registration.ts";
import type { DueDelivery, Rules } from "../rules.ts";
import { type Registered, sumRegistered } from "../rules.ts";
import { sentRegistration } from "../service-port.ts";

import { messageName, runName } from "./keys.ts";
import type { Parking } from "./parking.ts";
import { type StoredSubject, stateOf, unseenSubject } from "./rows.ts";
import type { Subjects, SubjectsOf } from "./subjects.ts";
import type { Transact, Transaction } from "./transact.ts";

/** Registers within a transaction. `due` is filled when the step is committed. */
type Register = (tx: Transaction, subjects: Subjects, registration: MessageRegistration, at: number) => Promise<Registered>;

interface Parts {
  readonly transact: Transact;
  readonly subjectsOf: SubjectsOf;
  readonly parking: Pick<Parking, "release">;
}

/** Registrations per step when they are independent. */
const mostAtOnce = 50;

/**
 * Registers a message and releases its parked events. Idempotent: known facts are not written again. Facts that contradict
 * the stored ones are returned as conflicts, and nothing is written.
 */
export function createRegisterOne({ parking }: Pick<Parts, "parking">): Register {
  return async (tx, subjects, registration, at) => {
    const name = messageName(registration.account, registration.wamid);
    const row = await subjects.find(name);
    const registered = registerMessage(row === null ? null : { facts: knownFacts(row), registeredAt: row.registeredAt }, registration);
    if (registered.result === "conflict") return registered;
    const { result, facts } = registered;
    if (row !== null && facts === null && !row.isMissing) return { result, due: [] };
    const before = row ?? unseenSubject;
    const after = {
      ...withFacts(before, facts ?? knownFacts(before)),
      isMissing: false,
      registeredAt: before.registeredAt ?? at,
      updatedAt: at,
    };
    if (row !== null && result === "created") return { result, due: await parking.release(tx, subjects, name, after, at) };
    subjects.put(name, after);
    return { result, due: [] };
  };
}

export function createRegister({ transact, subjectsOf }: Omit<Parts, "parking">, register: Register) {
  async function registerSome(tx: Transaction, registrations: readonly MessageRegistration[], at: number): Promise<Registered[]> {
    const subjects = subjectsOf(tx);
    // Loads all rows concurrently, so that later reads find them.
    await Promise.all(registrations.map(({ account, wamid }) => subjects.find(messageName(account, wamid))));
    const registered: Registered[] = [];
    for (const registration of registrations) registered.push(await register(tx, subjects, registration, at));
    return registered;
  }

  return {
    /** All or none: rejects with a `conflict` when one contradicts what is stored. */
    async register(registrations: readonly MessageRegistration[], at: number): Promise<{ created: number; due: readonly DueDelivery[] }> {
      const all = await transact(async (tx) => {
        const registered = await registerSome(tx, registrations, at);
        sumRegistered(registered);
        return registered;
      });
      // Each `due` was filled when the step was committed.
      return sumRegistered(all);
    },
    /** Registers each on its own, several per step: a conflict does not affect the others. */
    async registerEach(registrations: readonly MessageRegistration[], at: number): Promise<readonly Registered[]> {
      const all: Registered[] = [];
      for (let from = 0; from < registrations.length; from += mostAtOnce) {
        const some = registrations.slice(from, from + mostAtOnce);
        all.push(...(await transact((tx) => registerSome(tx, some, at))));
      }
      return all;
    },
  };
}

function knownFacts({ serviceId, reference, conversationId, metadata, sentAt }: StoredSubject): MessageFacts {
  return { id: serviceId, reference, conversationId, metadata, sentAt };
}

function withFacts(row: StoredSubject, { id, reference, conversationId, metadata, sentAt }: MessageFacts): StoredSubject {
  return { ...row, serviceId: id, reference, conversationId, metadata, sentAt };
}

/** Registers within a transaction. The result is filled when the step is committed. */
export type RegisterSent = (tx: Transaction, account: string, sent: SentSubject, at: number) => Promise<readonly DueDelivery[]>;

interface RegisterSentParts {
  readonly rules: Rules;
  readonly subjectsOf: SubjectsOf;
  readonly register: Register;
  readonly parking: Pick<Parking, "release">;
}

/** Registers a message or run that the relay sent, with its first status, and releases its parked events. */
export function createRegisterSent({ rules, subjectsOf, register, parking }: RegisterSentParts): RegisterSent {
  async function registerMessage(tx: Transaction, account: string, sent: Extract<SentSubject, { type: "message" }>, at: number) {
    const { wamid, status } = sent;
    const subjects = subjectsOf(tx);
    const registered = await register(tx, subjects, sentRegistration(account, sent, at), at);
    const name = messageName(account, wamid);
    const row = await subjects.find(name);
    if (row !== null) {
      const before = stateOf<MessageStatus>(row);
      const { state } = rules.stepMessage(before, { status, error: null, at });
      if (state !== before) subjects.put(name, { ...row, ...state, updatedAt: at });
    }
    // The wamid was registered with other facts before the service returned it. Those stay; the send's answer has its own.
    return registered.result === "conflict" ? [] : registered.due;
  }

  async function registerRun(tx: Transaction, account: string, sent: Extract<SentSubject, { type: "run" }>, at: number) {
    const { runId, reference, metadata } = sent;
    const subjects = subjectsOf(tx);
    const name = runName(account, runId);
    const known = await subjects.find(name);
    const before = stateOf<RunStatus>(known ?? unseenSubject);
    const { state } = rules.stepRun(before, { status: "started", error: null, at });
    const row = known !== null && state === before ? known : { ...(known ?? unseenSubject), ...state, updatedAt: at };
    if (row.registeredAt !== null) {
      if (row !== known) subjects.put(name, row);
      return [];
    }
    const text = metadata === undefined ? null : JSON.stringify(metadata);
    const after = { ...row, reference, metadata: text, registeredAt: at, updatedAt: at };
    return parking.release(tx, subjects, name, after, at);
  }

  return (tx, account, sent, at) => (sent.type === "message" ? registerMessage(tx, account, sent, at) : registerRun(tx, account, sent, at));
}
