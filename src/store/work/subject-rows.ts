import { hash } from "node:crypto";
import { lastContactDigits } from "../../model/mask.ts";
import { type MessageState, type TrackedState, unobserved } from "../../model/tracking.ts";
import { type Facts, factsOf } from "../../track/planning.ts";
import { blankRow, failedFlag, type RowOf, subjects } from "../schema/tables.ts";
import { ask, compareTexts, find, look, rowsBy, type Work } from "../sql/ops.ts";

export type SubjectRow = RowOf<typeof subjects>;

/** The key of a message: 16 bytes of the SHA-256 of its wamid. */
export const keyOf = (wamid: string): Buffer => hash("sha256", wamid, "buffer").subarray(0, 16);

/** A run may have the name of a message. */
export function keyOfRun(runId: string): Buffer {
  const digest = hash("sha256", runId, "buffer");
  return Buffer.concat([digest.subarray(0, 6), digest.subarray(16, 26)]);
}

/** Two transactions lock subjects in this order. */
export function byKey(
  [a, account]: readonly [Buffer, string],
  [b, other]: readonly [Buffer, string],
): number {
  return a.compare(b) || compareTexts(account, other);
}

const keyOfSeq = look(subjects, ["seq"], ["key", "account"]);
export const ownSubject = look(
  subjects,
  ["key", "account"],
  subjects.names as (keyof SubjectRow)[],
  { lock: "update" },
);

/** In one order. Those that are gone are left out. */
export function* lockSubjects(seqs: readonly number[]): Work<ReadonlyMap<number, SubjectRow>> {
  const distinct = [...new Set(seqs)];
  const known = yield* ask(find(keyOfSeq, distinct, (seq) => [seq]));
  const keys = known
    .flatMap((row): [Buffer, string][] => (row === undefined ? [] : [[row.key, row.account]]))
    .sort(byKey);
  return rowsBy(yield* ask(find(ownSubject, keys)), ({ seq }) => seq);
}

const seenSubject = look(subjects, ["seq"], subjects.names as (keyof SubjectRow)[]);

export function* findSubjects(seqs: readonly number[]): Work<ReadonlyMap<number, SubjectRow>> {
  const distinct = [...new Set(seqs)];
  return rowsBy(yield* ask(find(seenSubject, distinct, (seq) => [seq])), ({ seq }) => seq);
}

const blank = blankRow(subjects);

export function newSubject({
  seq,
  type,
  account,
  key,
  name,
}: Pick<SubjectRow, "seq" | "type" | "account" | "key" | "name">): SubjectRow {
  const phone = type === 0 ? lastContactDigits(name) : null;
  return {
    ...blank,
    seq,
    type,
    account,
    key,
    name,
    times: "{}",
    updated_at: 0,
    phone: phone === null ? null : Number(phone),
  };
}

export const movedColumns = ["status", "flag", "error", "times", "updated_at"] as const;

export function moveTo(
  row: Pick<SubjectRow, (typeof movedColumns)[number]>,
  { status, error, times }: TrackedState<string>,
  at: number,
): void {
  const flag = status === "failed" ? failedFlag : null;
  Object.assign(row, { status, flag, error, times: JSON.stringify(times), updated_at: at });
}

export function stateOfRow({
  status,
  error,
  times,
}: Pick<SubjectRow, "status" | "error" | "times">): TrackedState<string> {
  return status === null && error === null && times === "{}"
    ? unobserved
    : { status, error, times: JSON.parse(times) };
}

export function factsOfRow({
  type,
  registered_at,
  service_id,
  reference,
  metadata,
}: Pick<SubjectRow, "type" | "registered_at" | "service_id" | "reference" | "metadata">): Facts {
  return factsOf(
    type === 0 ? "message" : "run",
    registered_at === null ? null : { id: service_id, reference, metadata },
  );
}

const seenState = look(subjects, ["key", "account"], ["status", "error", "times"]);

export function* messageState(account: string, wamid: string): Work<MessageState | null> {
  const [row] = yield* ask(find(seenState, [[keyOf(wamid), account]]));
  return row === undefined ? null : (stateOfRow(row) as MessageState);
}
