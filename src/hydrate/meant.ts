import type { HydrationStart } from "../event/hydration.ts";
import type { Covered, TrackedMessage } from "./port.ts";
import type { HydrateSettings } from "./settings.ts";

/** What is known of a truncated event when it comes in. */
export interface TruncatedEvent {
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
