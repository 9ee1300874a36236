import { setImmediate as nextTurn } from "node:timers/promises";
import type {
  CoveredEvents,
  HydrationPass,
  HydrationStart,
  TrackedMessage,
  TrackedQuery,
} from "../model/hydration.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { messageStatuses, stageOf } from "../model/statuses.ts";
import type { HydrateSettings } from "./settings.ts";

interface TruncatedEvent {
  readonly event: string;
  /** True when it names its message or run after all. */
  readonly hasSubject: boolean;
  /** True when its account can be called. */
  readonly hasKey: boolean;
}

/**
 * The initial state of its hydration; null: not needed. Only messages have a GET
 * (messaging-service-api.md, "Endpoints").
 */
export function startOf({ event, hasSubject, hasKey }: TruncatedEvent): HydrationStart | null {
  if (hasSubject) return null;
  if (!event.startsWith("message.")) return { state: "given-up", reason: "not-readable" };
  return hasKey ? { state: "waiting" } : { state: "given-up", reason: "no-key" };
}

type Windows = Pick<HydrateSettings, "reach" | "settledAfter">;

/** By the service's clock, a message may seem to be sent after the relay received its event. */
const clockSlackMs = 5 * 60_000;

/** Only messages registered from then on are candidates. */
export function registeredFrom({ oldest }: CoveredEvents, { reach }: Windows): number {
  return oldest - reach;
}

/**
 * Whether one of the covered events could be about this message: its status can still change, and
 * it was sent before them. The query excludes messages that were registered too early ({@link
 * registeredFrom}).
 */
export function isCandidate(
  message: TrackedMessage,
  { oldest, newest }: CoveredEvents,
  { settledAfter }: Windows,
): boolean {
  const { status, changedAt, sentAt } = message;
  const stage = stageOf(messageStatuses, status);
  if (stage === "final") return false;
  if (sentAt !== null && sentAt > newest + clockSlackMs) return false;
  return stage === "open" || changedAt >= oldest - settledAfter;
}

/** Whether it was read after the last event, so that the status of all events is known. */
export function isRead({ readAt }: TrackedMessage, { newest }: CoveredEvents): boolean {
  return readAt !== null && readAt >= newest;
}

/**
 * Rows per turn of the event loop: a few milliseconds of the thread that also receives webhooks.
 */
const stepRows = 500;

export interface TrackedMessages {
  trackedMessages(account: string, query: TrackedQuery): MaybePromise<readonly TrackedMessage[]>;
}

interface WalkParts {
  readonly store: TrackedMessages;
  readonly pass: Pick<HydrationPass, "account" | "startedAt">;
  readonly covered: CoveredEvents;
  readonly settings: HydrateSettings;
}

/** Candidates that were not read since the events, latest registered first. */
export async function* unreadMessages(
  parts: WalkParts,
  withId: boolean,
): AsyncGenerator<TrackedMessage> {
  const { store, pass, covered, settings } = parts;
  const from = registeredFrom(covered, settings);
  let before: TrackedQuery["before"] = {
    registeredAt: pass.startedAt,
    message: Number.MAX_SAFE_INTEGER,
  };
  for (;;) {
    const rows = await store.trackedMessages(pass.account, {
      withId,
      before,
      from,
      limit: stepRows,
    });
    for (const row of rows)
      if (isCandidate(row, covered, settings) && !isRead(row, covered)) yield row;
    const last = rows.at(-1);
    if (last === undefined || rows.length < stepRows) return;
    before = last;
    await nextTurn();
  }
}

export async function countUnread(parts: WalkParts): Promise<number> {
  let count = 0;
  for (const withId of [true, false])
    for await (const _ of unreadMessages(parts, withId)) count += 1;
  return count;
}
