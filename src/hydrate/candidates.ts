import { setImmediate as nextTurn } from "node:timers/promises";
import type { GiveUpReason, HydrationStart } from "../model/hydration.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { MessageKey } from "../model/message.ts";
import type { HydrateSettings } from "./settings.ts";

/**
 * One hydration pass: reads the candidate messages of an account for all truncated events that waited when it began. Times
 * are unix ms.
 */
export interface Sweep {
  /** Identifies it in the store. */
  readonly seq: number | string;
  readonly account: string;
  /** Events up to this seq are covered. */
  readonly through: number;
  readonly startedAt: number;
  /** Calls so far, including before a restart. */
  readonly asked: number;
  /** Of the first covered event: found statuses are submitted with its source and as its consequence. */
  readonly source: string;
  readonly because: string;
  readonly covered: Covered;
}

/** The covered events that still wait. */
export interface Covered {
  readonly events: number;
  /** When the first and the last of them were received. */
  readonly oldest: number;
  readonly newest: number;
}

/** What decides whether a tracked message is a candidate. */
export interface TrackedMessage {
  readonly message: MessageKey;
  /** The service's id; null: it cannot be read. */
  readonly messageId: string | null;
  readonly status: string | null;
  readonly registeredAt: number;
  /** When it was sent, as far as known. */
  readonly sentAt: number | null;
  readonly changedAt: number;
  /** When it was last read, by any process; null: never. */
  readonly askedAt: number | null;
  /** The service does not know it. */
  readonly isMissing: boolean;
}

/** A position in the order of messages, latest registered first. */
interface Place {
  readonly registeredAt: number;
  /** Null: before the first message registered then. */
  readonly message: MessageKey | null;
}

interface Settled {
  /** Events settled in this step; fewer than the limit: there are no more. */
  readonly events: number;
}

/** The store, as hydration uses it. */
export interface HydrationStore {
  /** Accounts with truncated events that wait. */
  waitingAccounts(): MaybePromise<readonly string[]>;
  /** When the first of an account's waiting events was received; null: none waits. */
  waitingSince(account: string): MaybePromise<number | null>;
  /** Resumes the account's pass or begins one over all waiting events. Null: none waits, or another process has the pass. */
  beginSweep(account: string, now: number): Promise<Sweep | null>;
  /** The covered events that wait now; null: none. */
  covered(sweep: Sweep): MaybePromise<Covered | null>;
  /** The distinct ids of covered events. */
  targets(sweep: Sweep, limit: number): MaybePromise<readonly string[]>;
  /** Settles the events with such an id; if it names no message, leaves them to the pass. */
  settleTarget(sweep: Sweep, target: string, wamid: string | null, now: number): Promise<Settled>;
  /** Tracked messages of the account after `before`, registered at `from` or later, latest first; with or without the service's id. */
  trackedMessages(
    account: string,
    query: { readonly withId: boolean; readonly before: Place; readonly from: number; readonly limit: number },
  ): MaybePromise<readonly TrackedMessage[]>;
  /** Records calls; `at` is when the request was sent. */
  noteAsked(sweep: Sweep, asked: number, read: readonly { message: MessageKey; at: number }[]): Promise<void>;
  /** Calls of the account's passes since `since`. */
  callsSince(account: string, since: number): MaybePromise<number>;
  /** Ends covered events received at `receivedBy` or earlier, at most `limit` of them. */
  settleCovered(
    sweep: Sweep,
    end: { readonly reason: GiveUpReason | null; readonly unknown: number; readonly receivedBy: number },
    now: number,
    limit: number,
  ): Promise<Settled>;
  endSweep(sweep: Sweep, now: number): Promise<void>;
}

/** What is known of a truncated event on arrival. */
interface TruncatedEvent {
  /** Event kind. */
  readonly event: string;
  /** True when it names its message or run after all. */
  readonly hasSubject: boolean;
  /** True when its account can be called. */
  readonly hasKey: boolean;
}

/** The initial state of its hydration; null: not needed. Only messages have a GET (messaging-service-api.md, "Endpoints"). */
export function startOf({ event, hasSubject, hasKey }: TruncatedEvent): HydrationStart | null {
  if (hasSubject) return null;
  if (!event.startsWith("message.")) return { state: "given-up", reason: "not-readable" };
  return hasKey ? { state: "waiting" } : { state: "given-up", reason: "no-key" };
}

type Windows = Pick<HydrateSettings, "reach" | "settledAfter">;

/** By the service's clock, a message may seem to be sent after the relay received its event. */
const clockSlackMs = 5 * 60_000;

/** Only messages registered from then on are candidates. */
export function registeredFrom({ oldest }: Covered, { reach }: Windows): number {
  return oldest - reach;
}

/**
 * Whether one of the covered events could be about this message: its status can still change, and it was sent before them.
 * The query excludes messages that were registered too early ({@link registeredFrom}).
 */
export function couldBeMeant(message: TrackedMessage, { oldest, newest }: Covered, { settledAfter }: Windows): boolean {
  const { status, changedAt, sentAt, isMissing } = message;
  if (isMissing || status === "read" || status === "received") return false;
  if (sentAt !== null && sentAt > newest + clockSlackMs) return false;
  if (status === "delivered" || status === "failed") return changedAt >= oldest - settledAfter;
  return true;
}

/** Whether it was read after the last event, so that the status of all events is known. */
export function isRead({ askedAt }: TrackedMessage, { newest }: Covered): boolean {
  return askedAt !== null && askedAt >= newest;
}

/** Rows per turn of the event loop: a few milliseconds of the thread that also receives webhooks. */
const stepRows = 500;

interface WalkParts {
  readonly store: Pick<HydrationStore, "trackedMessages">;
  readonly sweep: Pick<Sweep, "account" | "startedAt">;
  readonly covered: Covered;
  readonly settings: HydrateSettings;
}

/** Candidates that were not read since the events, latest registered first. */
export async function* unreadMessages(parts: WalkParts, withId: boolean): AsyncGenerator<TrackedMessage> {
  const { store, sweep, covered, settings } = parts;
  const from = registeredFrom(covered, settings);
  let before: Place = { registeredAt: sweep.startedAt, message: null };
  for (;;) {
    const rows = await store.trackedMessages(sweep.account, { withId, before, from, limit: stepRows });
    for (const row of rows) if (couldBeMeant(row, covered, settings) && !isRead(row, covered)) yield row;
    const last = rows.at(-1);
    if (last === undefined || rows.length < stepRows) return;
    before = last;
    await nextTurn();
  }
}

/** The number of candidates that were not read. */
export async function countUnread(parts: WalkParts): Promise<number> {
  let count = 0;
  for (const withId of [true, false]) for await (const _ of unreadMessages(parts, withId)) count += 1;
  return count;
}
