import { type CallCap, type CallOperation, type CallOutcome, callOperations } from "../admission.ts";

/** Stops of monthly quotas: of every call, or of one kind of call. */
export type QuotaReason = "quota" | `quota-${CallOperation}`;
export const quotaReasons: readonly QuotaReason[] = ["quota", ...callOperations.map((operation) => `quota-${operation}` as const)];

/** Why no call goes, or none of a kind, whatever the caps say. */
export const stopReasons = [...quotaReasons, "unauthenticated", "blocked"] as const;
export type StopReason = QuotaReason | "unauthenticated" | "blocked";

/** A call as the stops see it: they learn only from calls that were let go after what they know. */
export interface NumberedCall {
  /** Calls are numbered as they are let go, from 1. */
  readonly number: number;
  /** The stops of which it tries whether they are over. */
  readonly probes: readonly StopReason[];
}

/** Which settings calls are made with: what was learned with others is not held against them. */
export interface Identity {
  readonly plan: string;
  readonly key: string;
}

/** A call that ended: at `now` (steady) and `wallNow` (unix ms). */
export interface EndedCall {
  readonly call: NumberedCall;
  readonly operation: CallOperation;
  readonly outcome: CallOutcome;
  readonly now: number;
  readonly wallNow: number;
}

/** Whether a key is good, as far as it is known (`probes.ts`). Times are steady ms. */
export interface KeyState {
  /** Index into the waits; null: no doubt. */
  wait: number | null;
  until: number;
  /** While a call tries: when it is given up for lost; earlier: none tries. */
  probeUntil: number;
  /** The newest call when the last doubt ended. */
  endedAt: number;
  /** An answer has shown that it is good. */
  isProven: boolean;
}

/** A cap that is held (`caps.ts`). Times are steady ms. */
export interface HoldState {
  /** Before it no call of the cap is let go. */
  until: number;
  inARow: number;
  /** The newest call when the hold began. */
  since: number;
}

/** Calls that a used-up quota stops (`probes.ts`). Times are steady ms. */
export interface QuotaStop {
  /** As the service names it; null: it does not. */
  readonly resource: string | null;
  /** Unix ms, because renewal is a date; null: when it renews is not certain. */
  readonly renewsAt: number | null;
  /** Calls are refused until then; after that one call probes. */
  until: number;
  /** While a call probes: when it is given up for lost. */
  probeUntil: number;
}

/** A smaller cap that the service reported (`caps.ts`). */
export interface LearnedCap {
  readonly limit: number;
  /** Steady ms. */
  readonly at: number;
}

/**
 * All that is known of an account beside the calls that count: what the answers of the service have taught. Plain data,
 * so that the processes of an account can share it (`shared.ts`).
 */
export interface AccountState {
  /** The plan that `quotas` and `granted` are about: with another they mean nothing. */
  plan: string;
  quotas: Record<QuotaReason, QuotaStop | null>;
  /** The newest call when another plan was begun with, or an operator ended the stops. */
  resumedAt: number;
  /** Steady ms until which the address is blocked. */
  blockedUntil: number;
  granted: Record<CallCap, LearnedCap | null>;
  holds: Record<CallCap, HoldState>;
  /** By fingerprint: while a key is changed, processes with the old one and with the new one call side by side. */
  keys: Record<string, KeyState>;
}

/** So many keys are remembered, the latest. */
const mostKeys = 4;

export function emptyAccountState(plan: string): AccountState {
  const noHold = (): HoldState => ({ until: 0, inARow: 0, since: -1 });
  return {
    plan,
    quotas: noQuotas(),
    resumedAt: 0,
    blockedUntil: 0,
    granted: { requests: null, messages: null },
    holds: { requests: noHold(), messages: noHold() },
    keys: {},
  };
}

export function noQuotas(): AccountState["quotas"] {
  return Object.fromEntries(quotaReasons.map((reason) => [reason, null])) as AccountState["quotas"];
}

/** What is known of a key; a key that nothing is known of is added. */
export function keyOf(state: AccountState, key: string): KeyState {
  const known = state.keys[key];
  if (known !== undefined) return known;
  const others = Object.entries(state.keys).slice(1 - mostKeys);
  const fresh: KeyState = { wait: null, until: 0, probeUntil: 0, endedAt: 0, isProven: false };
  state.keys = Object.fromEntries([...others, [key, fresh]]);
  return fresh;
}

/** Forgets what was about another plan. */
export function holdToPlan(state: AccountState, plan: string): void {
  if (state.plan === plan) return;
  state.quotas = noQuotas();
  forgetGranted(state, plan);
}

/** Forgets smaller caps that the service told of. */
export function forgetGranted(state: AccountState, plan: string): void {
  state.plan = plan;
  state.granted = { requests: null, messages: null };
}

/** The same state with all its steady times moved by `byMs`. */
export function shifted(state: AccountState, byMs: number): AccountState {
  const hold = (one: HoldState): HoldState => ({ ...one, until: one.until + byMs });
  const learned = (one: LearnedCap | null): LearnedCap | null => one && { ...one, at: one.at + byMs };
  return {
    ...state,
    quotas: Object.fromEntries(
      Object.entries(state.quotas).map(([reason, one]) => [
        reason,
        one && { ...one, until: one.until + byMs, probeUntil: one.probeUntil + byMs },
      ]),
    ) as AccountState["quotas"],
    granted: { requests: learned(state.granted.requests), messages: learned(state.granted.messages) },
    blockedUntil: state.blockedUntil + byMs,
    holds: { requests: hold(state.holds.requests), messages: hold(state.holds.messages) },
    keys: Object.fromEntries(
      Object.entries(state.keys).map(([key, one]) => [key, { ...one, until: one.until + byMs, probeUntil: one.probeUntil + byMs }]),
    ),
  };
}
