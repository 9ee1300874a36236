import type { SharedAnswer, SharedStep } from "../../model/shared-caps.ts";
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

/** A smaller cap that the service reported (`caps.ts`). */
export interface LearnedCap {
  readonly limit: number;
  /** Steady ms. */
  readonly at: number;
}

/**
 * What the service's answers have shown about an account. Plain data, so that the account's processes can share it
 * (`shared.ts`).
 */
export interface AccountState {
  /** The plan of `quotas` and `granted`, which do not apply to another plan. */
  plan: string;
  quotas: Record<QuotaReason, QuotaStop | null>;
  /** The newest call when the plan changed or an operator ended the stops. */
  resumedAt: number;
  /** Steady ms until which the address is blocked. */
  blockedUntil: number;
  granted: Record<CallCap, LearnedCap | null>;
  holds: Record<CallCap, HoldState>;
  /** By fingerprint: during a key rotation, processes use the old and the new key side by side. */
  keys: Record<string, KeyState>;
}

/** Only the latest keys are remembered. */
const mostKeys = 4;

function emptyAccountState(plan: string): AccountState {
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
  forgetGranted(state, plan);
}

/** Forgets smaller caps that the service reported. */
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

/** The account state of one process, or of all that share it. */
export interface Learned {
  /** As this process knows it now; do not modify. */
  view(): AccountState;
  /**
   * Applies `what` in this process at once and returns its result. `newest`: the number of the call dispatched last. When
   * another process was faster, `what` runs again on its state, so it must be pure. `settled` receives the result that was
   * stored; null: unknown whether it was.
   */
  change<T>(what: (state: AccountState, newest: number) => T, settled?: (given: T | null) => void): T;
}

/** The state of a process that is alone. */
export function createOwnLearned(plan: string, newest: () => number): Learned {
  const state = emptyAccountState(plan);
  return {
    view: () => state,
    change(what, settled) {
      const given = what(state, newest());
      settled?.(given);
      return given;
    },
  };
}

interface SharedLearned extends Learned {
  newest(): number;
  /** What the next step sends about the state. */
  toSend(): Pick<SharedStep, "version" | "next">;
  /** False: the changes were not stored, because another process had changed the state. Send them again. */
  receive(answer: SharedAnswer, now: number): boolean;
  /** The step failed: the changes may or may not be stored. */
  failed(): void;
  /** Whether changes are not stored yet. */
  hasNews(): boolean;
}

interface Change {
  apply(state: AccountState, newest: number): void;
  /** A caller waits for whether it was stored. */
  readonly isAwaited: boolean;
  settle(isStored: boolean): void;
}

/**
 * The state that an account's processes share: as stored last, plus the changes of this process that are not stored yet. A
 * change is stored only on the state it was made on; if another process was faster, it is applied again on the new state.
 * Times are steady ms of this process, and of the shared clock in transit. `news`: called when there is a change to store.
 */
export function createSharedLearned(plan: string, news: () => void): SharedLearned {
  let base = emptyAccountState(plan);
  let view = structuredClone(base);
  let changes: Change[] = [];
  let version = 0;
  let newest = 0;
  /** Shared time minus local time; null: not known yet. */
  let offset: number | null = null;
  /** The state in transit, with the changes that it includes. */
  let draft: { readonly state: AccountState; readonly changes: readonly Change[] } | null = null;

  function look(): void {
    view = structuredClone(base);
    for (const change of changes) change.apply(view, newest);
  }

  return {
    view: () => view,
    change(what, settled) {
      const before = JSON.stringify(view);
      const first = what(view, newest);
      if (settled === undefined && JSON.stringify(view) === before) return first;
      let last = first;
      changes.push({
        apply(state, at) {
          last = what(state, at);
        },
        isAwaited: settled !== undefined,
        settle: (isStored) => settled?.(isStored ? last : null),
      });
      news();
      return first;
    },
    newest: () => newest,
    toSend() {
      if (changes.length === 0 || offset === null) return { version, next: null };
      const state = structuredClone(base);
      for (const change of changes) change.apply(state, newest);
      draft = { state, changes };
      return { version, next: { state: JSON.stringify(shifted(state, offset)), newest } };
    },
    receive(answer, now) {
      const stored = answer.isStored ? draft : null;
      draft = null;
      version = answer.version;
      newest = answer.newest;
      offset = answer.now - now;
      if (stored !== null) base = stored.state;
      // It was written by a process of this version.
      else if (answer.state !== null) base = shifted(JSON.parse(answer.state) as AccountState, -offset);
      changes = changes.filter((change) => stored?.changes.includes(change) !== true);
      look();
      for (const change of stored?.changes ?? []) change.settle(true);
      return changes.length === 0;
    },
    failed() {
      draft = null;
      const awaited = changes.filter(({ isAwaited }) => isAwaited);
      changes = changes.filter(({ isAwaited }) => !isAwaited);
      look();
      for (const change of awaited) change.settle(false);
    },
    hasNews: () => changes.length > 0,
  };
}
