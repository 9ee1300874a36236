import type { MessageStatus, RunStatus } from "../../event/statuses.ts";
import type { MessageState, RunState } from "../../event/tracking.ts";

/** What a user told of a message or run. */
export interface SubjectFacts {
  /** The service's id of a message. */
  readonly serviceId: string | null;
  readonly reference: string | null;
  readonly conversationId: string | null;
  /** A JSON object. */
  readonly metadata: string | null;
  /** When it was sent, in unix ms, as its registration told. */
  readonly sentAt: number | null;
  /** Unix ms; null: only seen. */
  readonly registeredAt: number | null;
}

interface SubjectRow extends SubjectFacts {
  readonly status: string | null;
  /** A message's error code, a run's error. */
  readonly error: string | null;
  /** First time of each status seen, unix ms. */
  readonly times: Readonly<Record<string, number>>;
  readonly updatedAt: number;
  /** When a call that read the message for a sweep began, in unix ms. */
  readonly askedAt: number | null;
  /** The service does not know the message: it is polled no more. */
  readonly isMissing: boolean;
  /** Seq of the last parked event that was released, 0 for none, while more wait for that; null: none waits (parking.ts). */
  readonly releasedTo: number | null;
}

/** A message or run as it is stored. */
export type StoredSubject = SubjectRow;

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
  askedAt: null,
  isMissing: false,
  releasedTo: null,
};

export function writeSubjectRow(row: StoredSubject): string {
  const { registeredAt, serviceId, reference, conversationId, metadata, sentAt, askedAt, isMissing, releasedTo } = row;
  const facts = registeredAt === null ? [] : [registeredAt, serviceId, reference, conversationId, metadata, sentAt, askedAt];
  if (isMissing || releasedTo !== null) facts.push(isMissing ? 1 : 0);
  if (releasedTo !== null) facts.push(releasedTo);
  return JSON.stringify([row.status, row.error, row.updatedAt, row.times, ...facts]);
}

export function readSubjectRow(text: string): StoredSubject {
  const list = JSON.parse(text) as unknown[];
  const [status, error, updatedAt, times, registeredAt = null, serviceId = null, reference = null, ...rest] = list;
  const [conversationId = null, metadata = null, sentAt = null, askedAt = null, isMissing, releasedTo = null] = rest;
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
    askedAt,
    isMissing: isMissing === 1,
    releasedTo,
  } as StoredSubject;
}

export function messageStateOf(row: StoredSubject): MessageState {
  return { status: row.status as MessageStatus | null, errorCode: row.error, times: row.times };
}

export function runStateOf(row: StoredSubject): RunState {
  return { status: row.status as RunStatus | null, error: row.error, times: row.times };
}

export function withMessageState(row: StoredSubject, state: MessageState, at: number): StoredSubject {
  return { ...row, status: state.status, error: state.errorCode, times: state.times as Record<string, number>, updatedAt: at };
}

export function withRunState(row: StoredSubject, state: RunState, at: number): StoredSubject {
  return { ...row, status: state.status, error: state.error, times: state.times as Record<string, number>, updatedAt: at };
}
