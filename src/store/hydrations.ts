import type { GiveUpReason } from "../event/hydration.ts";
import type { EventId } from "../event/ids.ts";
import type { MessageKey } from "../event/message-key.ts";
import type { DueDelivery } from "./planned.ts";

/** The part of a sweep that says which events it covers. */
export interface Covering {
  /** Names the sweep within the store. */
  readonly seq: number | string;
  readonly account: string;
  /** Events up to this seq are covered. */
  readonly through: number;
}

/** The covered events that still wait. */
export interface CoveredEvents {
  readonly events: number;
  /** When the first and the last of them were received, in unix ms. */
  readonly oldest: number;
  readonly newest: number;
}

export interface SweepView extends Covering {
  readonly startedAt: number;
  readonly asked: number;
  readonly source: string;
  readonly because: EventId;
  readonly covered: CoveredEvents;
}

export interface HydrationEnd {
  readonly reason: GiveUpReason | null;
  readonly unknown: number;
  /** Unix ms. */
  readonly receivedBy: number;
}

export interface SettledHydrations {
  readonly events: number;
  readonly due: readonly DueDelivery[];
}

export interface TrackedQuery {
  readonly withId: boolean;
  /** A place in the order of messages, latest registered first; `message` null: before the first one registered then. */
  readonly before: { readonly registeredAt: number; readonly message: MessageKey | null };
  readonly from: number;
  readonly limit: number;
}

export interface TrackedView {
  readonly message: MessageKey;
  readonly messageId: string | null;
  readonly status: string | null;
  readonly registeredAt: number;
  readonly sentAt: number | null;
  readonly changedAt: number;
  readonly askedAt: number | null;
  readonly isMissing: boolean;
}

/** A message that was read for a sweep; `at` is when the request left. */
export interface ReadMessage {
  readonly message: MessageKey;
  readonly at: number;
}

/** Longest id that a truncated event is read by. */
const mostTarget = 256;
/** Open runs that are named with a truncated result, and so many of them counted. */
export const mostCandidates = 20;
export const mostOpenRuns = 10_000;

/** The id that a truncated event came with; null: none that can be asked for. */
export function targetOf(data: Readonly<Record<string, unknown>>): string | null {
  const id = data["id"];
  return typeof id === "string" && id !== "" && id.length <= mostTarget ? id : null;
}
