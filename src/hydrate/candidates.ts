import { setImmediate as nextTurn } from "node:timers/promises";
import type { GiveUpReason, HydrationStart } from "../event/hydration.ts";
import type { MessageKey } from "../event/message-key.ts";
import type { Soon } from "../event/soon.ts";
import type { HydrateSettings } from "./settings.ts";

/**
 * One pass over the messages of an account that could be meant, on behalf of all truncated events that waited when it
 * began. Times are unix ms.
 */
export interface Sweep {
  /** Names it within the store. */
  readonly seq: number | string;
  readonly account: string;
  /** Events up to this seq are covered. */
  readonly through: number;
  readonly startedAt: number;
  /** Asked so far, before a restart too. */
  readonly asked: number;
  /** Of the first event covered: what is learned is told as if it had come that way, because of it. */
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

/** A tracked message, as far as it matters for whether it could be meant. */
export interface TrackedMessage {
  readonly message: MessageKey;
  /** The service's id; null: it cannot be read. */
  readonly messageId: string | null;
  readonly status: string | null;
  readonly registeredAt: number;
  /** When it was sent, as far as anybody told. */
  readonly sentAt: number | null;
  readonly changedAt: number;
  /** It has been read no earlier than this, by whomever; null: never. */
  readonly askedAt: number | null;
  /** The service does not know it. */
  readonly isMissing: boolean;
}

/** A place in the order of messages, latest registered first. */
interface Place {
  readonly registeredAt: number;
  /** Null: before the first one registered then. */
  readonly message: MessageKey | null;
}

interface Settled {
  /** Events settled in this step; fewer than asked for: there are no more. */
  readonly events: number;
}

/** What hydration asks of the store. */
export interface HydrationStore {
  /** Accounts with truncated events that wait. */
  waitingAccounts(): Soon<readonly string[]>;
  /** When the first of an account's waiting events was received; null: none waits. */
  waitingSince(account: string): Soon<number | null>;
  /** Goes on with the account's sweep, or begins one over all that wait; null: nothing waits, or another process has it. One sweep at a time per account. */
  beginSweep(account: string, now: number): Promise<Sweep | null>;
  /** The covered events that wait now; null: none. */
  covered(sweep: Sweep): Soon<Covered | null>;
  /** The ids that covered events came with, each once. */
  targets(sweep: Sweep, limit: number): Soon<readonly string[]>;
  /** What the service said of such an id: events with it are settled, or, when the id names no message, left to the sweep. */
  settleTarget(sweep: Sweep, target: string, wamid: string | null, now: number): Promise<Settled>;
  /** Tracked messages of the account after `before`, registered at `from` or later, latest first; with or without the service's id. */
  trackedMessages(
    account: string,
    query: { readonly withId: boolean; readonly before: Place; readonly from: number; readonly limit: number },
  ): Soon<readonly TrackedMessage[]>;
  /** Remembers what was asked: `at` is when the request left. */
  noteAsked(sweep: Sweep, asked: number, read: readonly { message: MessageKey; at: number }[]): Promise<void>;
  /** Calls that sweeps of the account made since `since`. */
  callsSince(account: string, since: number): Soon<number>;
  /** Ends covered events received at `receivedBy` or earlier, at most `limit` of them. */
  settleCovered(
    sweep: Sweep,
    end: { readonly reason: GiveUpReason | null; readonly unknown: number; readonly receivedBy: number },
    now: number,
    limit: number,
  ): Promise<Settled>;
  endSweep(sweep: Sweep, now: number): Promise<void>;
}

/** What is known of a truncated event when it comes in. */
interface TruncatedEvent {
  /** Event kind. */
  readonly event: string;
  /** True when it names its message or run in spite of all. */
  readonly hasSubject: boolean;
  /** True when its account's service can be asked. */
  readonly hasKey: boolean;
}

/** How its hydration begins; null: it needs none. Only messages have a GET (messaging-service-api.md, "Endpoints"). */
export function startOf({ event, hasSubject, hasKey }: TruncatedEvent): HydrationStart | null {
  if (hasSubject) return null;
  if (!event.startsWith("message.")) return { state: "given-up", reason: "not-readable" };
  return hasKey ? { state: "waiting" } : { state: "given-up", reason: "no-key" };
}

type Windows = Pick<HydrateSettings, "reach" | "settledAfter">;

/** A message sent by the service's clock may seem to be sent after its event was received by ours. */
const clockSlackMs = 5 * 60_000;

/** Registered no earlier than this, a message could be meant by one of the events. */
export function registeredFrom({ oldest }: Covered, { reach }: Windows): number {
  return oldest - reach;
}

/**
 * Whether one of the covered events could be about this message: its status can still move, and it was sent before
 * them. What was registered too long before them the store is not even asked for ({@link registeredFrom}).
 */
export function couldBeMeant(message: TrackedMessage, { oldest, newest }: Covered, { settledAfter }: Windows): boolean {
  const { status, changedAt, sentAt, isMissing } = message;
  if (isMissing || status === "read" || status === "received") return false;
  if (sentAt !== null && sentAt > newest + clockSlackMs) return false;
  if (status === "delivered" || status === "failed") return changedAt >= oldest - settledAfter;
  return true;
}

/** Read after the last of the events came, so that what they told is known. */
export function isRead({ askedAt }: TrackedMessage, { newest }: Covered): boolean {
  return askedAt !== null && askedAt >= newest;
}

/** Rows read between two turns of the event loop: some milliseconds of the thread that also receives. */
const stepRows = 500;

interface WalkParts {
  readonly store: Pick<HydrationStore, "trackedMessages">;
  readonly sweep: Pick<Sweep, "account" | "startedAt">;
  readonly covered: Covered;
  readonly settings: HydrateSettings;
}

/** Messages that one of the covered events could be about and that nobody has read since, latest registered first. */
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

/** How many could be meant and were not read: what stays unknown. */
export async function countUnread(parts: WalkParts): Promise<number> {
  let count = 0;
  for (const withId of [true, false]) for await (const _ of unreadMessages(parts, withId)) count += 1;
  return count;
}
