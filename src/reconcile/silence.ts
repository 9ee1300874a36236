import type { AccountWatch, Counts } from "../model/account-watch.ts";

type SilenceCause = "secret" | "url" | "quota" | "dropped";

/** What was seen of an account within the window that ends now. */
export interface Seen extends Counts, Pick<AccountWatch, "registered"> {
  /** No account of one of its sources has an event. */
  readonly isSourceQuiet: boolean;
  /** The monthly quota of calls is used up; that of webhooks may be too. */
  readonly quotaUsedUp: boolean;
}

interface Silence {
  /**
   * `missed`: polls found what webhooks should have reported; `nothing`: no event although messages
   * were registered; `refused`: bad signatures only.
   */
  readonly kind: "missed" | "nothing" | "refused";
  readonly causes: readonly SilenceCause[];
}

export function silenceText({ kind, causes }: Silence): {
  readonly text: string;
  readonly causes: readonly string[];
} {
  return { text: kindTexts[kind], causes: causes.map((cause) => causeTexts[cause]) };
}

const kindTexts: Record<Silence["kind"], string> = {
  nothing: "no webhook has come although messages were sent",
  missed: "polls found statuses whose webhooks did not arrive",
  refused: "the relay refuses every webhook",
};

/** Somebody may have guessed where no event is expected. */
export const isGuessable = ({ text }: { readonly text: string }): boolean =>
  text === kindTexts.refused;

/** Fewer are not significant: a phone may be off, or a webhook late. */
const leastMissed = 10;
/** The part of all statuses found by polls from which webhooks count as missing. */
const missedShare = 0.2;
/** Fewer are not significant: some messages stay pending forever. */
const leastRegistered = 5;
/** Fewer may be guesses. */
const leastRefused = 10;

/** Whether webhooks are missing; null: no sign of it. Causes come likeliest first. */
export function findSilence(seen: Seen, now: number, after: number): Silence | null {
  const { events, registered } = seen;
  const missed = Math.max(0, seen.missed - seen.truncated);
  const isMissed = missed >= leastMissed && missed >= missedShare * (missed + events);
  const isOverdue = registered.first !== null && now - registered.first >= after;
  const isNothing =
    events === 0 && isOverdue && (registered.count >= leastRegistered || missed > 0);
  const isRefused = seen.isSourceQuiet && seen.refused >= leastRefused;
  const kind = isNothing ? "nothing" : isMissed ? "missed" : isRefused ? "refused" : null;
  return kind === null ? null : { kind, causes: causesOf(seen) };
}

function causesOf({ events, refused, quotaUsedUp }: Seen): SilenceCause[] {
  const causes: SilenceCause[] = [];
  if (refused > 0) causes.push("secret");
  if (events === 0 && refused === 0) causes.push("url");
  // First when certain, else a possibility: beyond the quota of webhooks, the service sends none
  // and reports nothing.
  if (quotaUsedUp) causes.unshift("quota");
  else if (events === 0 && refused === 0) causes.push("quota");
  if (events > 0) causes.push("dropped");
  return causes;
}

const causeTexts: Record<SilenceCause, string> = {
  secret:
    "the relay refuses signatures: was the secret rotated at the service, or is the clock here wrong?",
  url: "no event arrives: is the webhook URL right, enabled, subscribed to message.status, and reachable from outside?",
  quota:
    "the month's webhook deliveries may be used up: the service then sends no more until day 1",
  dropped:
    "some events are missing: is the URL subscribed to all of message.status, and does it answer in time?",
};
