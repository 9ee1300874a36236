/** Why webhooks are believed to be missing. Likely causes, the likeliest first. */
export const silenceCauses = ["secret", "url", "quota", "dropped"] as const;
export type SilenceCause = (typeof silenceCauses)[number];

/** What was seen of an account within the window that ends now. */
export interface Seen {
  /** Events that proved themselves. */
  readonly events: number;
  /** Statuses learned by asking whose webhook did not come within the grace. */
  readonly missed: number;
  /** Events about a message that came without their data: each stands for a status that could only be learned by asking. */
  readonly truncated: number;
  /** Bad signatures at the account's sources. */
  readonly refused: number;
  /** Messages registered since the last event, or since the beginning: how many, and unix ms of the first. */
  readonly registered: { readonly count: number; readonly first: number | null };
  /** The service said that the monthly quota of calls is used up; that of webhooks may be too. */
  readonly quotaUsedUp: boolean;
}

export interface Silence {
  /** `missed`: asking told what webhooks should have; `nothing`: no event although messages were registered. */
  readonly kind: "missed" | "nothing";
  readonly causes: readonly SilenceCause[];
}

/** Fewer tell nothing: a phone switched off, a late webhook. */
const leastMissed = 10;
/** Of all statuses, the part learned by asking from which something is wrong. */
const missedShare = 0.2;
/** Some messages stay pending for ever. */
const leastRegistered = 5;

/** Whether webhooks are missing; null: there is no sign of it. Pure. */
export function findSilence(seen: Seen, now: number, after: number): Silence | null {
  const { events, registered } = seen;
  const missed = Math.max(0, seen.missed - seen.truncated);
  const isMissed = missed >= leastMissed && missed >= missedShare * (missed + events);
  const isOverdue = registered.first !== null && now - registered.first >= after;
  const isNothing = events === 0 && isOverdue && (registered.count >= leastRegistered || missed > 0);
  if (!isMissed && !isNothing) return null;
  return { kind: isNothing ? "nothing" : "missed", causes: causesOf(seen) };
}

function causesOf({ events, refused, quotaUsedUp }: Seen): SilenceCause[] {
  const causes: SilenceCause[] = [];
  if (refused > 0) causes.push("secret");
  if (events === 0 && refused === 0) causes.push("url");
  // Used up for certain, or possibly: what is over the quota of webhooks is not sent, and nobody is told.
  if (quotaUsedUp) causes.unshift("quota");
  else if (events === 0 && refused === 0) causes.push("quota");
  if (events > 0) causes.push("dropped");
  return causes;
}

export const causeTexts: Record<SilenceCause, string> = {
  secret: "requests come with signatures that no secret of the source makes: was the secret rotated at the service?",
  url: "nothing arrives at all: is the webhook URL right, enabled, subscribed to message.status, and reachable from outside?",
  quota: "the month's webhook deliveries may be used up: the service then sends no more until day 1",
  dropped: "some arrive and some do not: is the URL subscribed to all of message.status, and does it answer in time?",
};
