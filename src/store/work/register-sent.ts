import type { SentSubject } from "../../model/send.ts";
import type { MessageState, RunState } from "../../model/tracking.ts";
import type { DueDelivery } from "../rules.ts";
import { subjects } from "../schema/tables.ts";
import { sentRegistration } from "../service-port.ts";
import { ask, change, find, insert, lock, numbers, together, update, type Work } from "../sql/ops.ts";
import type { ParkingParts } from "./conclude.ts";
import { continueLater, releaseFor } from "./parking.ts";
import { register, releasedAtOnce } from "./register.ts";
import {
  byKey,
  flagOf,
  keyOf,
  keyOfRun,
  movedColumns,
  moveTo,
  newSubject,
  ownSubject,
  type SubjectRow,
  stateOfRow,
} from "./subject-rows.ts";

/** A message or run that the relay sent. */
export interface Sent {
  readonly account: string;
  readonly sent: SentSubject;
  /** Unix ms. */
  readonly at: number;
}

type SentMessage = Sent & { readonly sent: Extract<SentSubject, { type: "message" }> };
type SentRun = Sent & { readonly sent: Extract<SentSubject, { type: "run" }> };

const moved = change(subjects, movedColumns, { isLocked: true });
const registersRun = change(subjects, [...movedColumns, "reference", "metadata", "registered_at"], { isLocked: true });

/** Registers what was sent, with its first status, and releases its parked events. Returns what each of them released. */
export function* registerSent(batch: readonly Sent[], parts: ParkingParts): Work<readonly (readonly DueDelivery[])[]> {
  if (batch.length === 0) return [];
  // All of them before the first is registered, so that two transactions lock them in one order.
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

function* registerMessages(messages: readonly SentMessage[], parts: ParkingParts): Work<(readonly DueDelivery[])[]> {
  const outcomes = yield* register(
    messages.map(({ account, sent, at }) => ({ registrations: [sentRegistration(account, sent, at)], at })),
    parts,
  );
  const rows = yield* stored(messages);
  const changed = new Set<SubjectRow>();
  for (const { account, sent, at } of messages) {
    const row = rows.get(fullName(account, sent.wamid));
    if (row === undefined) continue;
    const before = stateOfRow(row) as MessageState;
    const { state } = parts.rules.stepMessage(before, { status: sent.status, error: null, at });
    if (state === before) continue;
    moveTo(row, state, at);
    changed.add(row);
  }
  yield update(moved, [...changed]);
  // A client registered other facts for this wamid first. They stay, and the answer to the send has ours.
  return outcomes.map(([outcome]) => (outcome === undefined || outcome.result === "conflict" ? [] : outcome.due));
}

function* registerRuns(runs: readonly SentRun[], parts: ParkingParts): Work<(readonly DueDelivery[])[]> {
  const keys = keysOf(runs);
  const known = yield* stored(runs);
  const spare = yield* ask(numbers(subjects, keys.length));
  const added = new Map<string, SubjectRow>();
  const changed = new Set<SubjectRow>();
  const created = new Map<SentRun, SubjectRow>();
  for (const run of runs) {
    const { account, sent, at } = run;
    const name = fullName(account, sent.runId);
    let row = known.get(name) ?? added.get(name);
    if (row === undefined) {
      row = newSubject({ seq: spare[added.size] as number, type: 1, account, key: keyOfRun(sent.runId), name: sent.runId });
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
    row.flag = flagOf(row);
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
  // Nothing is parked for a new one.
  const releasing = [...created.values()].filter((row) => !isAdded.has(row));
  const { freed, left } = yield* releaseFor(releasing, releasedAtOnce, Math.max(...runs.map(({ at }) => at)), parts);
  yield* continueLater(left);
  return runs.map((run) => {
    const subject = created.get(run)?.seq;
    return freed.flatMap((one) => (one.subject === subject ? [one.due] : []));
  });
}

/** The rows of what was sent, by account and name. */
function* stored(batch: readonly Sent[]): Work<Map<string, SubjectRow>> {
  const rows = yield* ask(find(ownSubject, keysOf(batch)));
  return new Map(rows.flatMap((row) => (row === undefined ? [] : [[fullName(row.account, row.name), row]])));
}

const fullName = (account: string, name: string): string => `${account}\0${name}`;
const keyOfSent = ({ sent }: Sent): Buffer => (sent.type === "message" ? keyOf(sent.wamid) : keyOfRun(sent.runId));

/** Each subject once, in the order in which they are locked. */
function keysOf(batch: readonly Sent[]): (readonly [key: Buffer, account: string])[] {
  const keys = batch.map((one) => [keyOfSent(one), one.account] as const);
  return [...new Map(keys.map(([key, account]) => [fullName(account, key.toString("latin1")), [key, account] as const])).values()].sort(
    byKey,
  );
}
