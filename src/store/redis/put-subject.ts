import { type Keys, readSubjectName, type SubjectName } from "./keys.ts";
import { readSubjectRow, type StoredSubject, writeSubjectRow } from "./rows.ts";
import { indexSubject } from "./subject-index.ts";
import type { Transaction } from "./transact.ts";

/** Subjects as one step finds and leaves them. */
export interface Subjects {
  /** As it is now, what this step wrote included; null when nothing is known of it. */
  find(name: SubjectName): Promise<StoredSubject | null>;
  put(name: SubjectName, after: StoredSubject): void;
}

export type SubjectsOf = (tx: Transaction) => Subjects;

/**
 * The one way in which transactions change a subject, so that the lists it stands in stay true:
 * `seen:`/`registered:` by its number, and with the same number `sid:` (the service's id) and `ref:` (its reference);
 * and those by which it is asked about (subject-index.ts).
 */
export function createSubjects(keys: Keys): SubjectsOf {
  const { base } = keys;

  function index(tx: Transaction, name: SubjectName, before: StoredSubject | null, after: StoredSubject): void {
    const { type, account } = readSubjectName(name);
    const kind = type === "message" ? "m" : "r";
    if (before === null) tx.call("SADD", `${base}accounts`, account);
    for (const operation of indexSubject(base, name, before, after)) tx.operate(operation);
    if (after.registeredAt === null) {
      if (before === null) tx.operate(["number", `${base}seen:${kind}`, name]);
      return;
    }
    const isRegistered = before !== null && before.registeredAt !== null;
    if (!isRegistered) tx.operate(["move", `${base}seen:${kind}`, `${base}registered:${kind}`, name]);
    const lists = indexesOf(base, kind, after).filter((list) => !isRegistered || !indexesOf(base, kind, before).includes(list));
    if (lists.length > 0) tx.operate(["index", `${base}registered:${kind}`, name, ...lists]);
  }

  return (tx) => {
    const rows = new Map<SubjectName, StoredSubject | null>();

    async function find(name: SubjectName): Promise<StoredSubject | null> {
      const known = rows.get(name);
      if (known !== undefined) return known;
      const json = await tx.read(keys.of(name));
      const row = json === null ? null : readSubjectRow(json);
      rows.set(name, row);
      return row;
    }

    return {
      find,
      put(name, after) {
        const before = rows.get(name);
        if (before === undefined) throw new Error("a subject is written that was not read");
        rows.set(name, after);
        tx.put(keys.of(name), writeSubjectRow(after));
        index(tx, name, before, after);
      },
    };
  };
}

/** Lists in which a registered subject is found by what was told of it. */
export function indexesOf(base: string, kind: "m" | "r", { serviceId, reference }: StoredSubject): string[] {
  return [...(serviceId === null ? [] : [`${base}sid:${serviceId}`]), ...(reference === null ? [] : [`${base}ref:${kind}:${reference}`])];
}
