import { maskNumber } from "../../model/mask.ts";
import type { SentSubject } from "../../model/send.ts";
import type { MessageState, RunState } from "../../model/tracking.ts";
import {
  conflictError,
  type KnownMessage,
  type MessageFacts,
  type MessageRegistration,
  registerMessage,
} from "../../track/registration.ts";
import type { DueDelivery, Registered } from "../port.ts";
import { polls, subjects } from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  insert,
  insertMissing,
  lock,
  numbers,
  rowsBy,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import type { ParkingParts } from "./conclude.ts";
import { continueLater, releaseFor } from "./parking.ts";
import { pollAgain, pollOf } from "./polls.ts";
import {
  byKey,
  keyOf,
  keyOfRun,
  movedColumns,
  moveTo,
  newSubject,
  ownSubject,
  type SubjectRow,
  stateOfRow,
} from "./subject-rows.ts";

export interface Registering {
  readonly registrations: readonly MessageRegistration[];
  readonly at: number;
}

const releasedAtOnce = 50;

const facts = [
  "service_id",
  "service_mask",
  "reference",
  "metadata",
  "conversation_id",
  "registered_sent_at",
] as const;
const registers = change(subjects, [...facts, "registered_at", "updated_at"], { isLocked: true });

interface Message {
  readonly stored: SubjectRow | null;
  readonly row: SubjectRow;
  readonly isKnown: boolean;
}

export function* register(
  batch: readonly Registering[],
  parts: ParkingParts,
): Work<readonly (readonly Registered[])[]> {
  const named = nameAll(batch);
  const keys = named.map(({ key, account }) => [key, account]);
  const [rows, spare] = yield* together([find(ownSubject, keys), numbers(subjects, keys.length)]);
  const messages = new Map<string, Message>();
  for (const [place, { name, account, key, turn }] of named.entries()) {
    const stored = rows[place] ?? null;
    const row = stored ?? newSubject({ seq: spare[turn] as number, type: 0, account, key, name });
    messages.set(nameOf(account, name), { stored, row, isKnown: stored !== null });
  }
  const outcomes = batch.map((list) => registerAll(messages, list));

  const changed = [...messages.values()].filter(({ stored, row }) => stored !== row);
  const added = changed.filter(({ stored, isKnown }) => stored === null && isKnown);
  const joined = changed.filter(({ stored }) => stored !== null);
  const polled = changed.filter(
    ({ stored, row }) => row.service_id !== null && (stored?.service_id ?? null) === null,
  );
  const revived = joined.filter(({ stored, row }) => stored?.missing !== row.missing);
  yield* together([
    insert(subjects, rowsOf(added)),
    update(registers, rowsOf(joined)),
    insertMissing(polls, rowsOf(polled).map(pollOf)),
  ]);
  yield* pollAgain(rowsOf(revived));

  const created = rowsOf(
    joined.filter(
      ({ stored, row }) => stored?.registered_at === null && row.registered_at !== null,
    ),
  );
  if (created.length === 0) return outcomes;
  const at = Math.max(...batch.map((list) => list.at));
  const { freed, left } = yield* releaseFor(created, releasedAtOnce, at, parts);
  yield* continueLater(left);
  const due = Map.groupBy(freed, ({ subject }) => subject);
  return outcomes.map((list, place) => {
    if (hasConflict(list)) return list;
    const { registrations } = batch[place] as Registering;
    return list.map((outcome, index) => {
      if (outcome.result !== "created") return outcome;
      const { account, wamid } = registrations[index] as MessageRegistration;
      const subject = messages.get(nameOf(account, wamid))?.row.seq ?? null;
      return { ...outcome, due: due.get(subject)?.map((one) => one.due) ?? [] };
    });
  });
}

const hasConflict = (list: readonly Registered[]): boolean =>
  list.some(({ result }) => result === "conflict");
const nameOf = (account: string, name: string): string => `${account}\0${name}`;
const rowsOf = (messages: readonly Message[]): SubjectRow[] => messages.map(({ row }) => row);

function nameAll(batch: readonly Registering[]) {
  const all = batch.flatMap(({ registrations }) =>
    registrations.map(
      ({ account, wamid }) => [nameOf(account, wamid), { account, wamid }] as const,
    ),
  );
  return [...new Map(all).values()]
    .map(({ account, wamid }, turn) => ({ name: wamid, account, key: keyOf(wamid), turn }))
    .sort((a, b) => byKey([a.key, a.account], [b.key, b.account]));
}

function registerAll(
  messages: Map<string, Message>,
  { registrations, at }: Registering,
): readonly Registered[] {
  const drafts = new Map<string, Message>();
  const outcomes: Registered[] = [];
  for (const registration of registrations) {
    const name = nameOf(registration.account, registration.wamid);
    const message = drafts.get(name) ?? (messages.get(name) as Message);
    const registered = registerMessage(
      message.isKnown ? knownMessage(message.row) : null,
      registration,
    );
    if (registered.result === "conflict") outcomes.push(registered);
    else {
      drafts.set(name, {
        ...message,
        isKnown: true,
        row: registeredRow(message.row, registered.facts, at),
      });
      outcomes.push({ result: registered.result, due: [] });
    }
  }
  if (hasConflict(outcomes)) return outcomes;
  for (const [name, draft] of drafts) messages.set(name, draft);
  return outcomes;
}

function knownMessage({
  service_id,
  reference,
  conversation_id,
  metadata,
  registered_sent_at,
  registered_at,
}: SubjectRow): KnownMessage {
  return {
    facts: {
      id: service_id,
      reference,
      conversationId: conversation_id,
      metadata,
      sentAt: registered_sent_at,
    },
    registeredAt: registered_at,
  };
}

function registeredRow(row: SubjectRow, facts: MessageFacts | null, at: number): SubjectRow {
  if (facts === null) return row.missing === null ? row : { ...row, missing: null };
  return {
    ...row,
    missing: null,
    service_id: facts.id,
    service_mask: facts.id === null ? null : maskNumber(facts.id),
    reference: facts.reference,
    conversation_id: facts.conversationId,
    metadata: facts.metadata,
    registered_sent_at: facts.sentAt,
    registered_at: row.registered_at ?? at,
    updated_at: at,
  };
}

interface Sent {
  readonly account: string;
  readonly sent: SentSubject;
  readonly at: number;
}

type SentMessage = Sent & { readonly sent: Extract<SentSubject, { type: "message" }> };
type SentRun = Sent & { readonly sent: Extract<SentSubject, { type: "run" }> };

const moved = change(subjects, movedColumns, { isLocked: true });
const registersRun = change(subjects, [...movedColumns, "reference", "metadata", "registered_at"], {
  isLocked: true,
});

export function* registerSent(
  batch: readonly Sent[],
  parts: ParkingParts,
): Work<readonly (readonly DueDelivery[])[]> {
  if (batch.length === 0) return [];
  // Two transactions lock them in one order.
  yield lock(ownSubject, keysOf(batch));
  const messages = batch.filter(isOfMessage);
  const runs = batch.filter(isOfRun);
  const due = [
    (messages.length === 0 ? [] : yield* registerMessages(messages, parts)).values(),
    (runs.length === 0 ? [] : yield* registerRuns(runs, parts)).values(),
  ] as const;
  return batch.map((one) => due[isOfMessage(one) ? 0 : 1].next().value ?? []);
}

const isOfMessage = (one: Sent): one is SentMessage => one.sent.type === "message";
const isOfRun = (one: Sent): one is SentRun => one.sent.type === "run";

function* registerMessages(
  messages: readonly SentMessage[],
  parts: ParkingParts,
): Work<(readonly DueDelivery[])[]> {
  const registrations = messages.map(
    ({ account, sent: { wamid, id, conversationId, reference, metadata }, at }) => {
      // Facts that the service did not return may be registered later.
      const facts = {
        id: id ?? undefined,
        conversationId: conversationId ?? undefined,
        reference,
        metadata,
      };
      return { registrations: [{ account, wamid, ...facts, sentAt: at }], at };
    },
  );
  const outcomes = yield* register(registrations, parts);
  const rows = yield* stored(messages);
  const changed = new Set<SubjectRow>();
  for (const { account, sent, at } of messages) {
    const row = rows.get(nameOf(account, sent.wamid));
    if (row === undefined) continue;
    const before = stateOfRow(row) as MessageState;
    const { state } = parts.rules.stepMessage(before, { status: sent.status, error: null, at });
    if (state === before) continue;
    moveTo(row, state, at);
    changed.add(row);
  }
  yield update(moved, [...changed]);
  // A client registered other facts first. They stay.
  return outcomes.map(([outcome]) =>
    outcome === undefined || outcome.result === "conflict" ? [] : outcome.due,
  );
}

function* registerRuns(
  runs: readonly SentRun[],
  parts: ParkingParts,
): Work<(readonly DueDelivery[])[]> {
  const keys = keysOf(runs);
  const known = yield* stored(runs);
  const spare = yield* ask(numbers(subjects, keys.length));
  const added = new Map<string, SubjectRow>();
  const changed = new Set<SubjectRow>();
  const created = new Map<SentRun, SubjectRow>();
  for (const run of runs) {
    const { account, sent, at } = run;
    const name = nameOf(account, sent.runId);
    let row = known.get(name) ?? added.get(name);
    if (row === undefined) {
      row = newSubject({
        seq: spare[added.size] as number,
        type: 1,
        account,
        key: keyOfRun(sent.runId),
        name: sent.runId,
      });
      added.set(name, row);
    }
    const before = stateOfRow(row) as RunState;
    const { state } = parts.rules.stepRun(before, { status: "started", error: null, at });
    if (state !== before) {
      moveTo(row, state, at);
      changed.add(row);
    }
    if (row.registered_at !== null) continue;
    const metadata = sent.metadata === undefined ? null : JSON.stringify(sent.metadata);
    Object.assign(row, { reference: sent.reference, metadata, registered_at: at, updated_at: at });
    changed.add(row);
    created.set(run, row);
  }
  const isAdded = new Set(added.values());
  yield* together([
    insert(
      subjects,
      [...added.values()].sort((a, b) => byKey([a.key, a.account], [b.key, b.account])),
    ),
    update(
      registersRun,
      [...changed].filter((row) => !isAdded.has(row)),
    ),
  ]);
  const releasing = [...created.values()].filter((row) => !isAdded.has(row));
  const { freed, left } = yield* releaseFor(
    releasing,
    releasedAtOnce,
    Math.max(...runs.map(({ at }) => at)),
    parts,
  );
  yield* continueLater(left);
  return runs.map((run) => {
    const subject = created.get(run)?.seq;
    return freed.flatMap((one) => (one.subject === subject ? [one.due] : []));
  });
}

function* stored(batch: readonly Sent[]): Work<Map<string, SubjectRow>> {
  const rows = yield* ask(find(ownSubject, keysOf(batch)));
  return rowsBy(rows, ({ account, name }) => nameOf(account, name));
}

function keysOf(batch: readonly Sent[]): (readonly [key: Buffer, account: string])[] {
  const keys = batch.map(
    ({ sent, account }) =>
      [sent.type === "message" ? keyOf(sent.wamid) : keyOfRun(sent.runId), account] as const,
  );
  return [
    ...new Map(keys.map((key) => [nameOf(key[1], key[0].toString("latin1")), key])).values(),
  ].sort(byKey);
}

/** Throws a `conflict` when one contradicts what is stored. */
export function sumRegistered(all: readonly Registered[]): {
  readonly created: number;
  readonly due: readonly DueDelivery[];
} {
  const due: DueDelivery[] = [];
  let created = 0;
  for (const [index, registered] of all.entries()) {
    if (registered.result === "conflict")
      throw conflictError(registered.conflicts, all.length > 1 ? index : undefined);
    if (registered.result === "created") created += 1;
    due.push(...registered.due);
  }
  return { created, due };
}
