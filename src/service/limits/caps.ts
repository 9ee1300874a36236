import { growingWait } from "../../model/backoff.ts";
import type { CallCap } from "../admission.ts";
import type { Plan } from "../settings.ts";
import type { EndedCall } from "./stops.ts";

export type Caps = Readonly<Record<CallCap, number>>;

/** messaging-service-api.md, "Per-minute caps". */
export const planCaps: Readonly<Record<Plan, Caps>> = {
  escala: { requests: 300, messages: 60 },
  enterprise: { requests: 1200, messages: 300 },
};

export function planId({ requests, messages }: Caps): string {
  return `${requests}/${messages}`;
}

/** API calls per month; null: unlimited (messaging-service-api.md, "Monthly quotas and maximums"). */
export const monthlyCalls: Readonly<Record<Plan, number | null>> = { escala: 300_000, enterprise: null };

/** Messages never exceed requests, of which they are a part. */
export function shareOf(caps: Caps, share: number): Caps {
  // A rounding error leaves a product such as 300 * 0.57 just below the whole number.
  const part = (cap: number): number => Math.max(1, Math.floor(cap * share + 1e-9));
  const requests = part(caps.requests);
  return { requests, messages: Math.min(part(caps.messages), requests) };
}

/** For interactive calls. */
const leftToInteractive = 0.1;

/** Calls other than sends get what the messages cap cannot need. At least 1: with a tiny share, a send may wait for one poll. */
export function quotasOf({ requests, messages }: Caps): { readonly interactive: number; readonly poll: number } {
  const interactive = Math.max(1, requests - messages);
  return { interactive, poll: Math.max(1, Math.floor(interactive * (1 - leftToInteractive) + 1e-9)) };
}

/** Without a header: caps are one-minute windows. */
const minuteMs = 60_000;
const longestGrownMs = 300_000;
/** Shorter waits would hammer the service; a longer `Retry-After` cannot concern a cap per minute. */
const shortestMs = 1_000;
const longestMs = 3_600_000;

/**
 * A 429 holds its cap for as long as the header says, twice that at the next 429 in a row, up to 5 minutes. Calls that
 * were in flight when the hold began change nothing. Times are steady ms.
 */
export function createHolds() {
  const noHold = () => ({ until: 0, inARow: 0, since: -1 });
  const holds = { requests: noHold(), messages: noHold() };

  function hold(cap: CallCap, { number, now }: EndedCall, newest: number, retryAfterMs: number | null): void {
    const held = holds[cap];
    const wait = Math.min(Math.max(retryAfterMs ?? minuteMs, shortestMs), longestMs);
    if (number <= held.since) {
      held.until = Math.max(held.until, now + wait);
      return;
    }
    held.until = now + Math.max(wait, growingWait(held.inARow + 1, wait, longestGrownMs));
    held.inARow += 1;
    held.since = newest;
  }

  return {
    until: (cap: CallCap): number => holds[cap].until,
    readyAt: (cap: CallCap): number => Math.max(...capsOf(cap).map((counted) => holds[counted].until)),
    /** `newest`: the number of the call dispatched last. */
    learn(ended: EndedCall, cap: CallCap, newest: number): void {
      const { outcome, number } = ended;
      if (outcome.type === "answered") {
        for (const counted of capsOf(cap)) if (number > holds[counted].since) holds[counted].inARow = 0;
      } else if (outcome.type === "rate-limited") {
        for (const held of outcome.cap === null ? capsOf("messages") : [outcome.cap]) hold(held, ended, newest, outcome.retryAfterMs);
      }
    },
  };
}

const capsOf = (cap: CallCap): readonly CallCap[] => (cap === "messages" ? ["requests", "messages"] : ["requests"]);
