import type { CallCap } from "../endpoints.ts";
import type { Plan } from "../settings.ts";

export type Caps = Readonly<Record<CallCap, number>>;

/** messaging-service-api.md, "Per-minute caps". */
export const planCaps: Readonly<Record<Plan, Caps>> = {
  escala: { requests: 300, messages: 60 },
  enterprise: { requests: 1200, messages: 300 },
};

export function planId({ requests, messages }: Caps): string {
  return `${requests}/${messages}`;
}

/**
 * API calls per month; null: unlimited (messaging-service-api.md, "Monthly quotas and maximums").
 */
export const monthlyCalls: Readonly<Record<Plan, number | null>> = {
  escala: 300_000,
  enterprise: null,
};

/** Messages never exceed requests, of which they are a part. */
export function shareOf(caps: Caps, share: number): Caps {
  // A rounding error leaves a product such as 300 * 0.57 just below the whole number.
  const part = (cap: number): number => Math.max(1, Math.floor(cap * share + 1e-9));
  const requests = part(caps.requests);
  return { requests, messages: Math.min(part(caps.messages), requests) };
}

/**
 * Polls get what the messages cap cannot need, less a tenth for runs. At least 1: with a tiny
 * share, a send may wait for one.
 */
export function mostPolls({ requests, messages }: Caps): number {
  return Math.max(1, Math.floor((requests - messages) * 0.9 + 1e-9));
}

/** Argentina is three hours behind UTC all year: no daylight saving since 2009. */
const behindUtcMs = 3 * 3_600_000;

/** Day 1, 00:00 Argentina time (messaging-service-api.md, "Limits"). */
export function quotaMonth(now: number): { readonly from: number; readonly until: number } {
  return { from: firstOfMonth(now, 0), until: firstOfMonth(now, 1) };
}

export function quotaDay(now: number): number {
  const day = 24 * 3_600_000;
  return Math.floor((now - behindUtcMs) / day) * day + behindUtcMs;
}

/** For a lagging counter, network delay, and small clock errors. */
const marginMs = 60_000;

/** Of a quota that is used up. `at`: up to a minute ago, for an answer about the previous month. */
export function renewalOf(now: number): { readonly at: number; readonly knownAt: number } {
  const { until } = quotaMonth(now - marginMs);
  return { at: until, knownAt: until + marginMs };
}

function firstOfMonth(now: number, ahead: number): number {
  const there = new Date(now - behindUtcMs);
  return Date.UTC(there.getUTCFullYear(), there.getUTCMonth() + ahead, 1) + behindUtcMs;
}
