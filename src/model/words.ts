import type { EventRequest, RelayEventDetail } from "./answers/events.ts";
import { type AttemptError, isOutage } from "./delivery.ts";

/*
 * Sentences that the console and the commands share.
 */

type Verdict = RelayEventDetail["routes"][number];
type GiveUp = NonNullable<NonNullable<RelayEventDetail["hydration"]>["reason"]>;
type NextStep = RelayEventDetail["deliveries"][number]["next"];

const criteria: Readonly<Record<string, string>> = {
  event: "it takes other kinds of events",
  status: "it takes other statuses",
  source: "it takes other sources",
  account: "it takes other accounts",
  untracked: "it takes registered messages only",
  tracked: "it takes unregistered messages only",
  "error code": "it takes other error codes",
  reference: "it takes other references",
  "no transition": "it takes changes of status only, and this event changed none",
};

/** `hydration`: of the event. One that names no message waits for no registration. */
export function verdictText(
  { verdict, reason }: Verdict,
  hydration: RelayEventDetail["hydration"],
): string {
  if (verdict === "deliver") return "matched every criterion";
  if (verdict === "park")
    return `waits for the ${hydration === null ? "registration of the message" : "hydration of the event"}`;
  if (reason === undefined) return "did not match";
  if (reason === "hydrated") return "received the changes that hydration found instead";
  const words = Object.hasOwn(criteria, reason) ? criteria[reason] : undefined;
  return `did not match: ${words ?? `its condition “${reason}” does not hold`}`;
}

export const requestText = ({ place, events }: Pick<EventRequest, "place" | "events">): string =>
  `item ${place} of ${events} in its request`;

const giveUps: Readonly<Record<GiveUp, string>> = {
  "not-readable": "the service's API cannot read what the event is about",
  "no-key": "the account has no base URL or API key",
  "too-long": "the time limit is over",
};

export const giveUpText = (reason: GiveUp): string => giveUps[reason];

/**
 * The outcome of an attempt in a few words: `answered 503`, `accepted`, `no answer: timeout`, `not
 * accepted: full`.
 */
export function attemptText(status: number | null, error: string | null): string {
  if (status !== null) return `answered ${status}`;
  if (error === null) return "accepted";
  if (error === "rejected") return "answered 2xx, but failIfBody matches its body";
  return error === "refused" || isOutage(error as AttemptError)
    ? `not accepted: ${error}`
    : `no answer: ${error}`;
}

/** What a delivery waits for. Its time, where it has one, follows. Null: it waits for nothing. */
export function nextStepText({ kind, at, behind, ahead, reason }: NextStep): string | null {
  switch (kind) {
    case "attempt":
      return "next attempt";
    case "due":
      return "goes out when the destination has room";
    case "exchange":
      return "the exchange is in flight";
    case "held":
      if (behind === null) return "held behind an earlier delivery of its message";
      return `held until the delivery of event ${behind} ends${ahead === 0 ? "" : `, then behind ${ahead} more`}`;
    case "breaker":
      return at === null
        ? "the destination fails: one delivery tries first, and the others follow if it succeeds"
        : "the destination fails, and its circuit breaker is open: attempts go on";
    case "paused":
      return "the destination asked for a pause (429): attempts go on";
    case "stopped":
      return `the destination is stopped (${reason})`;
    case "no route":
      return "its route is not in the settings";
    case "dead":
    case "done":
      return null;
  }
}
