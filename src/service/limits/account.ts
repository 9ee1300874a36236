import { type CallCap, type CallOperation, type CallOutcome, callOperations } from "../admission.ts";

/** Stops of monthly quotas: of all calls, or of one operation. */
export type QuotaReason = "quota" | `quota-${CallOperation}`;
export const quotaReasons: readonly QuotaReason[] = ["quota", ...callOperations.map((operation) => `quota-${operation}` as const)];

/** Why calls, or those of one operation, are refused whatever the caps allow. */
export const stopReasons = [...quotaReasons, "unauthenticated", "blocked"] as const;
export type StopReason = QuotaReason | "unauthenticated" | "blocked";

/** A call as the stops see it: they learn only from calls dispatched after their latest change. */
export interface NumberedCall {
  /** Calls are numbered in order of dispatch, from 1. */
  readonly number: number;
  /** The stops that this call probes. */
  readonly probes: readonly StopReason[];
}

/** The settings that calls use. What was learned with other settings does not apply to them. */
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

/** What is known of a key's validity (`stops.ts`). Times are steady ms. */
export interface KeyState {
  /** Index into the waits; null: no doubt. */
  wait: number | null;
  until: number;
  /** While a call probes: when the probe counts as lost. In the past: no probe. */
  probeUntil: number;
  /** The newest call when the last doubt ended. */
  endedAt: number;
  /** An answer has shown that the key is valid. */
  isProven: boolean;
}

/** A cap that is held (`caps.ts`). Times are steady ms. */
export interface HoldState {
  /** No call of the cap is dispatched before this. */
  until: number;
  inARow: number;
  /** The newest call when the hold began. */
  since: number;
}

/** Calls that a used-up quota stops (`stops.ts`). Times are steady ms. */
export interface QuotaStop {
  /** The service's name for it; null without one. */
  readonly resource: string | null;
  /** Unix ms, because renewal is a date; null: not certain. */
  readonly renewsAt: number | null;
  /** Calls are refused until then; after that, one call probes. */
  until: number;
  /** While a call probes: when the probe counts as lost. */
  probeUntil: number;
}

/** What the service's answers have shown about an account to this process. */
export interface AccountState {
  /** The plan of `quotas`, which do not apply to another one. */
  plan: string;
  quotas: Record<QuotaReason, QuotaStop | null>;
  /** The newest call when the plan changed or an operator ended the stops. */
  resumedAt: number;
  /** Steady ms until which the address is blocked. */
  blockedUntil: number;
  holds: Record<CallCap, HoldState>;
  /** By fingerprint: during a key rotation, processes use the old and the new key side by side. */
  keys: Record<string, KeyState>;
}

/** Only the latest keys are remembered. */
const mostKeys = 4;

export function createAccountState(plan: string): AccountState {
  const noHold = (): HoldState => ({ until: 0, inARow: 0, since: -1 });
  return {
    plan,
    quotas: noQuotas(),
    resumedAt: 0,
    blockedUntil: 0,
    holds: { requests: noHold(), messages: noHold() },
    keys: {},
  };
}

export function noQuotas(): AccountState["quotas"] {
  return Object.fromEntries(quotaReasons.map((reason) => [reason, null])) as AccountState["quotas"];
}

/** The state of a key; adds an unknown key. */
export function keyOf(state: AccountState, key: string): KeyState {
  const known = state.keys[key];
  if (known !== undefined) return known;
  const others = Object.entries(state.keys).slice(1 - mostKeys);
  const fresh: KeyState = { wait: null, until: 0, probeUntil: 0, endedAt: 0, isProven: false };
  state.keys = Object.fromEntries([...others, [key, fresh]]);
  return fresh;
}

/** Forgets what was learned with another plan. */
export function holdToPlan(state: AccountState, plan: string): void {
  if (state.plan === plan) return;
  state.quotas = noQuotas();
  state.plan = plan;
}
