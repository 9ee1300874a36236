import type { ReceivedEvent } from "../../model/event.ts";
import { hiddenNumber } from "../../model/mask.ts";

import { runStatuses, stageOf } from "../../model/statuses.ts";
import type { Tracking } from "../../model/tracking.ts";
import { type Facts, factsOf as registeredFacts } from "../../track/planning.ts";
import { type Rules, stepSubject } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import type { Operation } from "./commit.ts";
import { type Keys, maskKey, messageName, placesOfSubject, readSubjectName, runName, type SubjectName } from "./keys.ts";
import { newPollRecord, pollScore, readSubjectRow, type StoredSubject, stateOf, unseenSubject, writeSubjectRow } from "./rows.ts";

import type { Transaction } from "./transact.ts";

/**
 * Rows of messages and runs ("subjects") as this process last saw them. A cached row may be stale: the script compares its
 * version with the stored one, and returns the row when they differ.
 */
export type SubjectCache = ReturnType<typeof createSubjectCache>;

interface Waiting {
  readonly promise: Promise<string>;
  readonly resolve: (row: string) => void;
  readonly reject: (error: unknown) => void;
}

/** Keeps the last `most` rows at least, and twice as many at most. */
export function createSubjectCache(keys: Keys, link: RedisLink, most = 10_000) {
  // Two generations: deleting the oldest entry of a Map each time scans past all entries deleted before.
  let rows = new Map<SubjectName, string>();
  let older = new Map<SubjectName, string>();
  let waiting = new Map<SubjectName, Waiting>();

  async function loadAll(): Promise<void> {
    const all = waiting;
    waiting = new Map();
    try {
      const found = await link.run((redis) => redis.mget([...all.keys()].map(keys.of)));
      let n = 0;
      for (const [name, { resolve }] of all) {
        const row = found[n++] ?? "";
        // A missing row is not cached: it is about to be written.
        if (row !== "") remember(name, row);
        resolve(row);
      }
    } catch (error) {
      for (const { reject } of all.values()) reject(error);
    }
  }

  function remember(name: SubjectName, row: string): void {
    if (rows.size >= most) {
      older = rows;
      rows = new Map();
    }
    rows.set(name, row);
  }

  return {
    /** The stored text; undefined when it is not cached. */
    known: (name: SubjectName): string | undefined => rows.get(name) ?? older.get(name),
    /** Reads the stored text (`""`: none) in one round trip with the other loads of this turn. Rejects with `StoreUnavailable`. */
    load(name: SubjectName): Promise<string> {
      const pending = waiting.get(name);
      if (pending !== undefined) return pending.promise;
      if (waiting.size === 0) setImmediate(loadAll);
      const loading = Promise.withResolvers<string>();
      waiting.set(name, loading);
      return loading.promise;
    },
    remember,
  };
}

interface Tracked {
  readonly tracking: Tracking;
  /** The subject's row after the event; null when it stays as it is. */
  readonly next: StoredSubject | null;
}

/** The registered facts of a subject; untracked when it was never registered. */
export function factsOf(type: "message" | "run", row: StoredSubject): Facts {
  return registeredFacts(type, row.registeredAt === null ? null : { id: row.serviceId, reference: row.reference, metadata: row.metadata });
}

export function subjectNameOf({ account, subject }: ReceivedEvent): SubjectName | null {
  if (subject.type === "message") return messageName(account, subject.wamid);
  return subject.type === "run" ? runName(account, subject.runId) : null;
}

type TrackedPart = Pick<ReceivedEvent, "subject" | "receivedAt">;

/** Applies an event to its message or run; `row` is null when it was never seen. `at` is the event's own time, unix ms. */
export function trackEvent(rules: Rules, event: TrackedPart, row: StoredSubject | null, at: number): Tracked | null {
  const { subject, receivedAt } = event;
  if (subject.type === "none") return null;
  const known = row ?? unseenSubject;
  const before = stateOf<string>(known);
  const { state, tracking } = stepSubject(rules, subject, before, factsOf(subject.type, known), at);
  // An event about a message shows that the service knows it.
  const isUnchanged = row !== null && state === before && !known.isMissing;
  return { tracking, next: isUnchanged ? null : { ...known, ...state, isMissing: false, updatedAt: receivedAt } };
}

/** The subjects that one transaction reads and writes. */
export interface Subjects {
  /** The row, with what this transaction wrote; null when there is none. */
  find(name: SubjectName): Promise<StoredSubject | null>;
  put(name: SubjectName, after: StoredSubject): void;
}

export type SubjectsOf = (tx: Transaction) => Subjects;

/**
 * The only way in which transactions change a subject, so that its indexes stay true: `seen:` or `registered:` by its
 * number, `sid:` (the service's id) and `ref:` (its reference) with the same number, and the polling lists of `indexSubject`.
 */
export function createSubjects(keys: Keys): SubjectsOf {
  const { base } = keys;

  function index(tx: Transaction, name: SubjectName, before: StoredSubject | null, after: StoredSubject): void {
    const { type, account } = readSubjectName(name);
    const kind = type === "message" ? "m" : "r";
    if (before === null) tx.call("SADD", `${base}accounts`, account);
    for (const operation of indexSubject(base, name, before, after)) tx.operate(operation);
    if (after.registeredAt === null) {
      if (before === null) tx.operate(["number", `${base}seen:${kind}`, name, ...placesOfSubject(name)]);
      return;
    }
    const isRegistered = before !== null && before.registeredAt !== null;
    if (!isRegistered) tx.operate(["move", `${base}seen:${kind}`, `${base}registered:${kind}`, name, ...placesOfSubject(name)]);
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

/** Indexes of a registered subject by the service's id, masked where logs mask it, and by reference. */
export function indexesOf(base: string, kind: "m" | "r", { serviceId, reference }: StoredSubject): string[] {
  const lists: string[] = [];
  const hidden = serviceId === null ? null : hiddenNumber(serviceId);
  if (serviceId !== null) lists.push(`${base}sid:${serviceId}`);
  if (hidden !== null) lists.push(base + maskKey("i", hidden));
  if (reference !== null) lists.push(`${base}ref:${kind}:${reference}`);
  return lists;
}

/**
 * Updates of the polling lists for a change of a subject: the messages that can be read from the service, the messages
 * that are polled, and the open runs. They belong to the step that writes the row; null stands for a missing row.
 */
export function indexSubject(base: string, name: SubjectName, before: StoredSubject | null, after: StoredSubject | null): Operation[] {
  const { type, account, key } = readSubjectName(name);
  return type === "run" ? indexRun(base, account, key, before, after) : indexMessage(base, account, key, before, after);
}

function indexMessage(
  base: string,
  account: string,
  wamid: string,
  before: StoredSubject | null,
  after: StoredSubject | null,
): Operation[] {
  const operations: Operation[] = [];
  const [was, is] = [placeOfMessage(before), placeOfMessage(after)];
  if (was !== is) {
    if (was !== null) operations.push(["call", "ZREM", `${base}${was}:${account}`, wamid]);
    if (is !== null) operations.push(["call", "ZADD", `${base}${is}:${account}`, String(after?.registeredAt), wamid]);
  }
  if (was === "ti" && is !== "ti") {
    operations.push(["call", "HDEL", `${base}poll:${account}`, wamid]);
    operations.push(["call", "ZREM", `${base}polls:${account}`, wamid]);
    operations.push(["call", "ZREM", `${base}missing:${account}`, wamid]);
  }
  const isRevived = before?.isMissing === true && after?.isMissing === false;
  if (is === "ti" && after !== null && (was !== "ti" || isRevived)) {
    const since = after.sentAt ?? after.registeredAt ?? after.updatedAt;
    operations.push(["call", isRevived ? "HSET" : "HSETNX", `${base}poll:${account}`, wamid, newPollRecord(since)]);
    operations.push(["call", "ZADD", `${base}polls:${account}`, "NX", String(pollScore(0, since)), wamid]);
  }
  if (isRevived) operations.push(["call", "ZREM", `${base}missing:${account}`, wamid]);
  return operations;
}

/** The list of a registered message: `ti` with the service's id, `tn` without, which cannot be read. */
export function placeOfMessage(row: StoredSubject | null): "ti" | "tn" | null {
  if (row === null || row.registeredAt === null) return null;
  return row.serviceId === null ? "tn" : "ti";
}

function indexRun(base: string, account: string, runId: string, before: StoredSubject | null, after: StoredSubject | null): Operation[] {
  const [was, is] = [isOpenRun(before), isOpenRun(after)];
  if (was === is) return [];
  const key = `${base}runs:${account}`;
  return is ? [["call", "ZADD", key, String(after?.registeredAt), runId]] : [["call", "ZREM", key, runId]];
}

/** A run that a truncated result may be about. */
export function isOpenRun(row: StoredSubject | null): boolean {
  return row !== null && row.registeredAt !== null && stageOf(runStatuses, row.status) !== "final";
}
