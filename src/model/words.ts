import type { EventRequest, RelayEventDetail } from "./answers/events.ts";

/*
 * Sentences that the console and the commands share.
 */

type Verdict = RelayEventDetail["routes"][number];
type GiveUp = NonNullable<NonNullable<RelayEventDetail["hydration"]>["reason"]>;

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

export function verdictText({ verdict, reason }: Verdict): string {
  if (verdict === "deliver") return "matched every criterion";
  if (verdict === "park") return "waits for the registration of the message";
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
