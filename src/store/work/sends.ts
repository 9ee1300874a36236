import {
  beginKey,
  endKey,
  keyStates,
  type SendClaim,
  type SendEnd,
  type SendKey,
  type StoredSend,
  sendKinds,
} from "../../model/send.ts";
import type { DueDelivery } from "../port.ts";
import { type RowOf, sends } from "../schema/tables.ts";
import {
  ask,
  change,
  compareTexts,
  find,
  insert,
  look,
  removal,
  remove,
  rows,
  rowsBy,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { as, indexedBy, raw, select } from "../sql/sql.ts";
import type { ParkingParts } from "./conclude.ts";
import { goneOf, noteCalling, type Process } from "./leases.ts";
import { registerSent } from "./register.ts";

/* Idempotency keys, by the rules of `beginKey` and `endKey`. Once the process of a call is gone, its outcome is unknown. */

export interface Beginning {
  readonly key: SendKey;
  readonly claim: SendClaim;
}

export interface Ending {
  readonly key: SendKey;
  readonly ended: SendEnd;
}

type SendRow = RowOf<typeof sends>;
type RowKey = readonly [account: string, kind: number, key: string];

/** The service has ten seconds to answer, and its answer is stored within seconds. */
const callingMs = 60_000;

const seen = look(sends, ["account", "kind", "key"], sends.names as (keyof SendRow)[]);
const own = look(sends, ["account", "kind", "key"], sends.names as (keyof SendRow)[], {
  lock: "update",
});
const changed = change(sends, ["state", "attempts", "about", "caller", "started_at", "answer"], {
  isLocked: true,
});
const ended = removal(sends, { isLocked: true });
/** A key that is used again meanwhile stays. */
const forgotten = removal(sends, { only: ["started_at"] });

const calling = keyStates.indexOf("calling");

export function* findSend(key: SendKey, process: Process): Work<StoredSend | null> {
  const [row] = yield* ask(find(seen, [keyOf(key)]));
  return row === undefined ? null : viewOf(row, yield* goneCallers([row], process));
}

/** Null: the key is taken for this call. Otherwise the send that holds it. */
export function* beginSends(
  batch: readonly Beginning[],
  process: Process,
): Work<readonly (StoredSend | null)[]> {
  const stored = yield* ownRows(batch.map(({ key }) => key));
  const gone = yield* goneCallers([...stored.values()], process);
  const rowsNow = new Map(stored);
  const outcomes = batch.map(({ key, claim }) => {
    const [account, kind, name] = keyOf(key);
    const full = nameOf(keyOf(key));
    const row = rowsNow.get(full);
    const held = row === undefined ? null : viewOf(row, gone);
    const begun = beginKey(held, claim);
    if (begun === null) return held;
    rowsNow.set(full, {
      account,
      kind,
      key: name,
      state: keyStates.indexOf(begun.state),
      attempts: begun.attempts,
      about: claim.about,
      caller: process.id,
      started_at: claim.at,
      fingerprint: begun.fingerprint,
      answer: row?.answer ?? null,
    });
    return null;
  });
  yield* store(stored, rowsNow);
  if (outcomes.includes(null)) yield* noteCalling(callingMs, process);
  return outcomes;
}

/**
 * Registers what was sent, and returns the deliveries that this released. Ending a call again
 * changes nothing.
 */
export function* settleSends(
  batch: readonly Ending[],
  process: Process,
  parts: ParkingParts,
): Work<readonly (readonly DueDelivery[])[]> {
  const stored = yield* ownRows(batch.map(({ key }) => key));
  const rowsNow = new Map(stored);
  for (const { key, ended } of batch) {
    const name = nameOf(keyOf(key));
    const row = rowsNow.get(name);
    if (row === undefined || row.state !== calling || row.caller !== process.id) continue;
    const after = endKey(viewOf(row, none), ended.end);
    if (after === null) rowsNow.delete(name);
    else {
      const answer = ended.end === "done" ? JSON.stringify(ended.answer) : row.answer;
      rowsNow.set(name, {
        ...row,
        state: keyStates.indexOf(after.state),
        attempts: after.attempts,
        answer,
      });
    }
  }
  yield* store(stored, rowsNow);
  const sent = batch.flatMap(({ key: { account }, ended }, place) =>
    ended.end === "done" ? [{ place, account, sent: ended.sent, at: ended.at }] : [],
  );
  const due = yield* registerSent(sent, parts);
  const byPlace = new Map(sent.map(({ place }, index) => [place, due[index]]));
  return batch.map((_, place) => byPlace.get(place) ?? []);
}

const s = as(sends, "s");
const old = select({
  account: s.account,
  kind: s.kind,
  key: s.key,
  state: s.state,
  caller: s.caller,
  started_at: s.started_at,
});

export function* forgetSends(before: number, limit: number, process: Process): Work<number> {
  const found = yield* rows(
    old`FROM sends s ${indexedBy("sends_old")}
      WHERE s.kind = ${raw(String(sendKinds.indexOf("message")))} AND s.started_at < ${before} ORDER BY s.started_at LIMIT ${limit}`,
  );
  const gone = yield* goneCallers(found, process);
  const over = found
    .filter(({ state, caller }) => state !== calling || gone.has(caller))
    .sort((a, b) => byKey(rowKey(a), rowKey(b)));
  return (yield* ask(remove(forgotten, over))).filter((isDone) => isDone).length;
}

function* ownRows(keys: readonly SendKey[]): Work<Map<string, SendRow>> {
  const distinct = [...new Map(keys.map((key) => [nameOf(keyOf(key)), key])).values()];
  const sorted = distinct.map(keyOf).sort(byKey);
  const found = yield* ask(find(own, sorted));
  return rowsBy(found, (row) => nameOf(rowKey(row)));
}

/** Of two that claim a key at once, one fails, and is repeated. */
function* store(
  stored: ReadonlyMap<string, SendRow>,
  rowsNow: ReadonlyMap<string, SendRow>,
): Work<void> {
  const sorted = [...rowsNow].sort(([, a], [, b]) => byKey(rowKey(a), rowKey(b)));
  yield* together([
    insert(
      sends,
      sorted.flatMap(([name, row]) => (stored.has(name) ? [] : [row])),
    ),
    update(
      changed,
      sorted.flatMap(([name, row]) => (stored.has(name) && stored.get(name) !== row ? [row] : [])),
    ),
    remove(
      ended,
      [...stored].flatMap(([name, row]) => (rowsNow.has(name) ? [] : [row])),
    ),
  ]);
}

function viewOf(
  { state, caller, attempts, fingerprint, about, started_at, answer }: SendRow,
  gone: ReadonlySet<string>,
): StoredSend {
  return {
    state: state === calling && gone.has(caller) ? "unknown" : (keyStates[state] ?? "unknown"),
    attempts,
    fingerprint,
    about,
    startedAt: started_at,
    answer: answer === null ? null : JSON.parse(answer),
  };
}

function goneCallers(
  sent: readonly Pick<SendRow, "state" | "caller">[],
  process: Process,
): Work<ReadonlySet<string>> {
  const callers = sent.flatMap(({ state, caller }) => (state === calling ? [caller] : []));
  return goneOf(callers, process);
}

const none: ReadonlySet<string> = new Set();

const keyOf = ({ account, kind, key }: SendKey): RowKey => [account, sendKinds.indexOf(kind), key];
const nameOf = ([account, kind, key]: RowKey): string => `${account}\0${kind}\0${key}`;

const rowKey = ({ account, kind, key }: Pick<SendRow, "account" | "kind" | "key">): RowKey => [
  account,
  kind,
  key,
];

function byKey([account, kind, key]: RowKey, [otherAccount, otherKind, otherKey]: RowKey): number {
  return compareTexts(account, otherAccount) || kind - otherKind || compareTexts(key, otherKey);
}
