import { randomBytes } from "node:crypto";
import { type GiveUpReason, giveUpReasons, type HydrationBrief, type HydrationState, hydrationStates } from "../../model/hydration.ts";
import type { TrackedState } from "../../model/tracking.ts";
import type { SubjectName } from "./keys.ts";

const versionLength = 10;

/** Versions of rows: ten characters, unique over all writes of all processes. */
export function createVersions(): () => string {
  const process = randomBytes(3).toString("base64url");
  let count = 0;
  return () => {
    count = (count + 1) % 36 ** 6;
    return process + count.toString(36).padStart(6, "0");
  };
}

/** The JSON of a row, without version and inline body (event-rows.ts). */
export function rowJson(row: string): string {
  const end = row.indexOf("\n", versionLength);
  return end < 0 ? row.slice(versionLength) : row.slice(versionLength, end);
}

export const rowVersion = (row: string | null): string => (row === null ? "" : row.slice(0, versionLength));

/** A message or run as it is stored. Times are unix ms. The first six fields come from its registration. */
export interface StoredSubject extends TrackedState<string> {
  /** The service's id of a message. */
  readonly serviceId: string | null;
  readonly reference: string | null;
  readonly conversationId: string | null;
  /** A JSON object. */
  readonly metadata: string | null;
  readonly sentAt: number | null;
  /** Null: not registered, only seen in events. */
  readonly registeredAt: number | null;
  readonly updatedAt: number;
  /** When a call that read the message for a hydration pass began. */
  readonly readAt: number | null;
  /** The service does not know the message: it is polled no more. */
  readonly isMissing: boolean;
  /** Seq of the last parked event that was released, 0 for none, while others still wait; null: none waits (parking.ts). */
  readonly releasedTo: number | null;
}

export const unseenSubject: StoredSubject = {
  serviceId: null,
  reference: null,
  conversationId: null,
  metadata: null,
  sentAt: null,
  registeredAt: null,
  status: null,
  error: null,
  times: {},
  updatedAt: 0,
  readAt: null,
  isMissing: false,
  releasedTo: null,
};

export function writeSubjectRow(row: StoredSubject): string {
  const { registeredAt, serviceId, reference, conversationId, metadata, sentAt, readAt, isMissing, releasedTo } = row;
  const facts = registeredAt === null ? [] : [registeredAt, serviceId, reference, conversationId, metadata, sentAt, readAt];
  if (isMissing || releasedTo !== null) facts.push(isMissing ? 1 : 0);
  if (releasedTo !== null) facts.push(releasedTo);
  return JSON.stringify([row.status, row.error, row.updatedAt, row.times, ...facts]);
}

export function readSubjectRow(text: string): StoredSubject {
  const list = JSON.parse(text) as unknown[];
  const [status, error, updatedAt, times, registeredAt = null, serviceId = null, reference = null, ...rest] = list;
  const [conversationId = null, metadata = null, sentAt = null, readAt = null, isMissing, releasedTo = null] = rest;
  return {
    status,
    error,
    updatedAt,
    times,
    registeredAt,
    serviceId,
    reference,
    conversationId,
    metadata,
    sentAt,
    readAt,
    isMissing: isMissing === 1,
    releasedTo,
  } as StoredSubject;
}

export function stateOf<Status extends string>({ status, error, times }: StoredSubject): TrackedState<Status> {
  return { status: status as Status | null, error, times };
}

/** The hydration of a truncated event, in the row `h:<seq>`. Times are unix ms. */
export interface HydrationRow {
  readonly state: HydrationState;
  readonly reason: GiveUpReason | null;
  /** The id in the truncated event. */
  readonly target: string | null;
  /** Calls made. This and the following fields are set when it is settled. */
  readonly polled: number;
  readonly found: number;
  /** The found events end at this seq. */
  readonly last: number | null;
  /** The message of that id: only events of it are found. */
  readonly subject: SubjectName | null;
  readonly unknown: number | null;
  readonly candidates: readonly (readonly [runId: string, reference: string | null])[] | null;
  readonly settledAt: number | null;
}

export function writeHydrationRow(row: HydrationRow): string {
  const { target, polled, found, last, subject, unknown, candidates, settledAt } = row;
  const state = hydrationStates.indexOf(row.state);
  const reason = row.reason === null ? null : giveUpReasons.indexOf(row.reason);
  return JSON.stringify([state, reason, target, polled, found, last, subject, unknown, candidates, settledAt]);
}

export function readHydrationRow(text: string): HydrationRow {
  const [state, reason, target, polled, found, last, subject, unknown, candidates, settledAt] = JSON.parse(text);
  return {
    state: hydrationStates[state] ?? "given-up",
    reason: reason === null ? null : (giveUpReasons[reason] ?? null),
    target,
    polled,
    found,
    last,
    subject,
    unknown,
    candidates,
    settledAt,
  };
}

/** The part of a row that is sent downstream. */
export function briefOf(text: string): HydrationBrief {
  const { state, reason, polled, found, unknown, candidates } = readHydrationRow(text);
  return { state, reason, polled, found, unknown, candidates: candidatesOf(candidates) };
}

export function candidatesOf(runs: HydrationRow["candidates"]): HydrationBrief["candidates"] {
  return runs === null ? null : runs.map(([runId, reference]) => ({ runId, reference }));
}

/** Member of the lists by target. A JSON string is never the prefix of another one. */
export const targetMember = (target: string, seq: number | string): string => hideSeq(JSON.stringify(target)) + seq;

/** Escapes the placeholder for a new seq in user text; the JSON means the same. */
export const hideSeq = (json: string): string => json.replaceAll("@seq@", "\\u0040seq@");

/** An account's open hydration pass, in the row `pass:<account>`. */
export interface PassRow {
  /** A number when it was migrated from a file. */
  readonly seq: string | number;
  readonly through: number;
  /** Unix ms. */
  readonly startedAt: number;
  /** Calls made for it. */
  readonly polled: number;
}

export const writePassRow = ({ seq, through, startedAt, polled }: PassRow): string => JSON.stringify([seq, through, startedAt, polled]);

/** Takes a row with its version. */
export function readPassRow(row: string): PassRow {
  const [seq, through, startedAt, polled] = JSON.parse(rowJson(row));
  return { seq, through, startedAt, polled };
}

/** Polling state of a message, besides the time of its next poll. Times are unix ms. */
interface PollRecord {
  /** When it was sent, as far as known when the service's id was registered. */
  readonly since: number;
  readonly polls: number;
  /** Consecutive failures. */
  readonly failures: number;
  /** Consecutive 404s that count. */
  readonly misses: number;
  /** Of the last answer. */
  readonly polledAt: number | null;
}

/** `since polls failures polledAt misses`: the scripts in lua/ read and write it too. */
export const writePollRecord = ({ since, polls, failures, polledAt, misses }: PollRecord): string =>
  `${since} ${polls} ${failures} ${polledAt ?? "-"} ${misses}`;

/** The record of a message that was never polled. */
export const newPollRecord = (since: number): string => writePollRecord({ since, polls: 0, failures: 0, misses: 0, polledAt: null });

export function readPollRecord(text: string): PollRecord {
  const [since, polls, failures, polledAt = "-", misses] = text.split(" ");
  return {
    since: Number(since),
    polls: Number(polls),
    failures: Number(failures),
    misses: Number(misses),
    polledAt: polledAt === "-" ? null : Number(polledAt),
  };
}

/** Ranks run from 0 to this one. */
export const lastRank = 31;
/** Scores of one list order by rank first; each rank has room for times up to the year 2248. */
export const rankStep = 2 ** 43;

/** The score of a message that is polled next at `at` (unix ms), clamped: times from outside can be any number. */
export const pollScore = (rank: number, at: number): number => rank * rankStep + Math.min(Math.max(0, Math.round(at)), rankStep - 1);

/** Progress of the purge, for all processes: the row `retention`. */
export interface RetentionRow {
  /** Settled deliveries were deleted up to this seq; what was not old enough then is listed in `kept`. */
  readonly deliveriesTo: number;
  /** Events were deleted up to this seq, likewise. */
  readonly eventsTo: number;
  /** Start of the last complete walk over registered subjects, unix ms. */
  readonly walkedAt: number;
  /** Events received before this time (unix ms) may be deleted; null: none are. */
  readonly sweptEvents: number | null;
  /** The same for deliveries settled before it. */
  readonly sweptDeliveries: number | null;
}

const neverRun: RetentionRow = { deliveriesTo: 0, eventsTo: 0, walkedAt: 0, sweptEvents: null, sweptDeliveries: null };

export const retentionRowName = "retention";

/** `json`: null when nothing was ever deleted. */
export const readRetentionRow = (json: string | null): RetentionRow => (json === null ? neverRun : (JSON.parse(json) as RetentionRow));

/** Takes the later value of each field. */
export function joinRetention(row: RetentionRow, update: Partial<RetentionRow>): RetentionRow {
  const joined = { ...row };
  for (const name of Object.keys(update) as (keyof RetentionRow)[]) {
    const value = update[name];
    if (value !== null && value !== undefined) joined[name] = Math.max(value, row[name] ?? value);
  }
  return joined;
}
