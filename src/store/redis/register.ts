import {
  type Conflicts,
  conflictError,
  factsTold,
  joinFacts,
  type MessageFacts,
  type MessageRegistration,
  type Registered,
} from "../registration.ts";
import type { DueDelivery } from "../rules.ts";
import { messageName } from "./keys.ts";
import type { Parking } from "./parking.ts";
import type { Subjects, SubjectsOf } from "./put-subject.ts";
import { type StoredSubject, unseenSubject } from "./rows.ts";
import type { Transact, Transaction } from "./transact.ts";

/** `due` is filled when the step is committed. For inside one. */
export type Register = (
  tx: Transaction,
  subjects: Subjects,
  registration: MessageRegistration,
  at: number,
) => Promise<Registered | { readonly result: "conflict"; readonly conflicts: Conflicts }>;

interface Parts {
  readonly transact: Transact;
  readonly subjectsOf: SubjectsOf;
  readonly parking: Pick<Parking, "release">;
}

/** Registrations in one step, where each stands for itself. */
const mostAtOnce = 50;

/**
 * Registers a message and releases what was parked for it. Idempotent: what is known already is written nowhere; facts
 * that contradict the stored ones are given back, and nothing of the registration is kept.
 */
export function createRegisterOne({ parking }: Pick<Parts, "parking">): Register {
  return async (tx, subjects, registration, at) => {
    const name = messageName(registration.account, registration.wamid);
    const row = await subjects.find(name);
    if (row === null) {
      subjects.put(name, withFacts({ ...unseenSubject, updatedAt: at, registeredAt: at }, factsTold(registration)));
      return { result: "created", due: [] };
    }
    const joined = joinFacts(knownFacts(row), registration);
    if ("conflicts" in joined) return { result: "conflict", conflicts: joined.conflicts };
    if (row.registeredAt !== null && !joined.isNew && !row.isMissing) return { result: "known", due: [] };
    const after = withFacts({ ...row, isMissing: false, registeredAt: row.registeredAt ?? at, updatedAt: at }, joined.facts);
    if (row.registeredAt !== null) {
      subjects.put(name, after);
      return { result: "known", due: [] };
    }
    return { result: "created", due: await parking.release(tx, subjects, name, after, at) };
  };
}

export function createRegister({ transact, subjectsOf }: Omit<Parts, "parking">, register: Register) {
  /** Rows are asked for at once, and then found one after the other. */
  async function open(tx: Transaction, registrations: readonly MessageRegistration[]): Promise<Subjects> {
    const subjects = subjectsOf(tx);
    await Promise.all(registrations.map(({ account, wamid }) => subjects.find(messageName(account, wamid))));
    return subjects;
  }

  return {
    /** All or none: rejects with a `conflict` when one contradicts what is stored. */
    async register(registrations: readonly MessageRegistration[], at: number): Promise<{ created: number; due: readonly DueDelivery[] }> {
      const done = await transact(async (tx) => {
        const subjects = await open(tx, registrations);
        const all: Exclude<Registered, { result: "conflict" }>[] = [];
        for (const [index, registration] of registrations.entries()) {
          const registered = await register(tx, subjects, registration, at);
          if (registered.result === "conflict") throw conflictError(registered.conflicts, registrations.length > 1 ? index : undefined);
          all.push(registered);
        }
        return all;
      });
      return { created: done.filter(({ result }) => result === "created").length, due: done.flatMap(({ due }) => due) };
    },
    /** Each on its own, some in a step: one that contradicts what is stored leaves the others be. */
    async registerEach(registrations: readonly MessageRegistration[], at: number): Promise<readonly Registered[]> {
      const all: Registered[] = [];
      for (let from = 0; from < registrations.length; from += mostAtOnce) {
        const some = registrations.slice(from, from + mostAtOnce);
        const done = await transact(async (tx) => {
          const subjects = await open(tx, some);
          const registered: Registered[] = [];
          for (const registration of some) registered.push(await register(tx, subjects, registration, at));
          return registered;
        });
        all.push(...done);
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
