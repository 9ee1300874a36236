import type { CallCap } from "../admission.ts";

/** The plans that have an API at all (messaging-service-api.md, "Limits"). */
export type Plan = "escala" | "enterprise";

/** Calls a minute, by cap. */
export type Caps = Readonly<Record<CallCap, number>>;

/** messaging-service-api.md, "Per-minute caps". */
export const planCaps: Readonly<Record<Plan, Caps>> = {
  escala: { requests: 300, messages: 60 },
  enterprise: { requests: 1200, messages: 300 },
};

/** Tells plans from one another in what is learned of an account. */
export function planId({ requests, messages }: Caps): string {
  return `${requests}/${messages}`;
}

/** API calls a month; null: unlimited (messaging-service-api.md, "Monthly quotas and maximums"). */
export const monthlyCalls: Readonly<Record<Plan, number | null>> = { escala: 300_000, enterprise: null };

/**
 * The share of the caps that is ours, rounded down and at least 1. The one of messages is never more than
 * that of all requests, of which they are a part.
 */
export function shareOf(caps: Caps, share: number): Caps {
  // A product such as 300 * 0.57 falls short of its whole number by a rounding error.
  const part = (cap: number): number => Math.max(1, Math.floor(cap * share + 1e-9));
  const requests = part(caps.requests);
  return { requests, messages: Math.min(part(caps.messages), requests) };
}

/** Of what others than sends may use, the tenth that polls leave to those whom somebody waits for. */
const leftToAsks = 0.1;

/**
 * How much of the requests cap those may use that are no sends: `ask` and `poll` together what the messages cap cannot
 * need (requests − messages), so that they never take from sends; `poll` alone nine tenths of that, so that an ask
 * need not wait for a minute full of polls to pass. Each at least 1: with a share so small that nothing is left over,
 * a send may have to wait for one poll.
 */
export function quotasOf({ requests, messages }: Caps): { readonly ask: number; readonly poll: number } {
  const ask = Math.max(1, requests - messages);
  return { ask, poll: Math.max(1, Math.floor(ask * (1 - leftToAsks) + 1e-9)) };
}
