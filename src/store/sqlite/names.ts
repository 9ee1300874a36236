import { deliveryStates } from "../../model/delivery.ts";
import { origins } from "../../model/event.ts";
import { type GiveUpReason, giveUpReasons, type HydrationState, hydrationStates } from "../../model/hydration.ts";
import { type EventId, isCanonicalUuid, uuidText } from "../../model/ids.ts";
import { dispositions } from "../../model/plan.ts";
import type { Db } from "./file.ts";

type NameKind = "account" | "source" | "route" | "kind" | "secret";

export type Names = ReturnType<typeof createNames>;

/** Senders choose event kinds, so the memory copy is cleared at this many names or characters. */
const maxCached = 10_000;
const maxCachedLength = 1_000_000;

/** As in the index `events_by_rare_kind`. */
const keptNumbers = 1024;

/** Names stored once in the file, with their numbers in memory. */
export function createNames(db: Db) {
  const select = db.prepare<[string, string], number>("SELECT id FROM names WHERE kind = ? AND name = ?").pluck();
  const selectName = db.prepare<[number], string>("SELECT name FROM names WHERE id = ?").pluck();
  const insert = db.readonly ? null : db.prepare<[string, string]>("INSERT INTO names (kind, name) VALUES (?, ?)");
  // The greatest number stays, so that none is reused: readers in other processes may have cached it.
  const kindsAfter = db.readonly
    ? null
    : db.prepare<[number, number], { id: number; used: 0 | 1 }>(
        `SELECT id, id = (SELECT max(id) FROM names)
           OR EXISTS (SELECT 1 FROM events INDEXED BY events_by_rare_kind WHERE kind = n.id AND kind > ${keptNumbers}) AS used
         FROM names n WHERE id > ? AND kind = 'kind' ORDER BY id LIMIT ?`,
      );
  const remove = db.readonly ? null : db.prepare<[number]>("DELETE FROM names WHERE id = ?");
  let ids = new Map<string, number>();
  let names = new Map<number, string>();
  let idsLength = 0;
  let namesLength = 0;

  function remember(key: string, id: number): number {
    if (ids.size >= maxCached || idsLength > maxCachedLength) {
      ids = new Map();
      idsLength = 0;
    }
    ids.set(key, id);
    idsLength += key.length;
    return id;
  }

  /** The number of a stored name, or null. Writes nothing. */
  function find(kind: NameKind, name: string): number | null {
    const key = `${kind}\0${name}`;
    const known = ids.get(key);
    if (known !== undefined) return known;
    const id = select.get(kind, name);
    return id === undefined ? null : remember(key, id);
  }

  /** Clears the memory copy: after a rollback, a number may not be in the file. */
  function forget(): void {
    ids = new Map();
    names = new Map();
    idsLength = 0;
    namesLength = 0;
  }

  return {
    find,
    /** The number of a name. Writes a new one, so call it inside a transaction. */
    idOf(kind: NameKind, name: string): number {
      const found = find(kind, name);
      if (found !== null) return found;
      if (insert === null) throw new Error("names cannot be written through a reader");
      return remember(`${kind}\0${name}`, Number(insert.run(kind, name).lastInsertRowid));
    },
    nameOf(id: number): string {
      let name = names.get(id);
      if (name === undefined) {
        name = selectName.get(id);
        if (name === undefined) throw new Error(`no name ${id}`);
        if (names.size >= maxCached || namesLength > maxCachedLength) {
          names = new Map();
          namesLength = 0;
        }
        names.set(id, name);
        namesLength += name.length;
      }
      return name;
    },
    /**
     * Deletes event kinds without events, among the `limit` kinds after the number `after`. The first numbers stay, so that
     * usual files need no index of kinds. Returns the last number checked, null at the end. Call it inside a transaction.
     */
    purgeKinds(after: number, limit: number): { readonly last: number | null; readonly purged: number } {
      if (kindsAfter === null || remove === null) throw new Error("names cannot be removed through a reader");
      const kinds = kindsAfter.all(Math.max(after, keptNumbers), limit);
      let purged = 0;
      for (const { id, used } of kinds) {
        if (used === 1) continue;
        remove.run(id);
        purged += 1;
      }
      if (purged > 0) forget();
      return { last: kinds.length < limit ? null : (kinds.at(-1)?.id ?? null), purged };
    },
    forget,
  };
}

/**
 * The numbers that stand for words in the file: a word's place in its list. A list may grow at its end and is never
 * reordered. The partial indexes in the migrations contain these numbers.
 */
export const stateCode = codes(deliveryStates);
export const dispositionCode = codes(dispositions);
export const originCode = codes(origins);
export const hydrationCode = codes(hydrationStates);
export const giveUpCode = codes(giveUpReasons);

/** The words of the numbers. */
export const stateList = deliveryStates;
export const dispositionList = dispositions;
export const originList = origins;

function codes<Word extends string>(words: readonly Word[]): Record<Word, number> {
  return Object.fromEntries(words.map((word, code) => [word, code])) as Record<Word, number>;
}

/** An event id as stored. A UUID takes 16 bytes, which halves the index; other ids stay text. */
export function packEventId(id: string): Buffer | string {
  return isCanonicalUuid(id) ? Buffer.from(id.replaceAll("-", ""), "hex") : id;
}

export function unpackEventId(value: Uint8Array | string | null): EventId | null {
  if (value === null) return null;
  if (typeof value === "string") return value as EventId;
  return uuidText(Buffer.from(value).toString("hex")) as EventId;
}

export type SubjectKey = number;

export function messageSubject(seq: number): SubjectKey {
  return seq * 2;
}

export function runSubject(seq: number): SubjectKey {
  return seq * 2 + 1;
}

export function hydrationState(code: number): HydrationState {
  return hydrationStates[code] ?? "given-up";
}

export function giveUpReason(code: number | null): GiveUpReason | null {
  return code === null ? null : (giveUpReasons[code] ?? null);
}
