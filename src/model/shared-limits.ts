export type BreakerState = "closed" | "open" | "half-open";

/** The public view of a breaker. */
export interface BreakerView {
  readonly state: BreakerState;
  /** Unix milliseconds until which the destination asked for a pause; null without one. */
  readonly pausedUntil: number | null;
}

/** The breaker of a destination shared by all processes. It follows the table of `deliver/breaker.ts`. */
export interface SharedBreaker {
  /** Reports verdicts and reads the state in one step. Rejects when the store is down; the outcome is then unknown. */
  step(request: SharedBreakerStep): Promise<SharedBreakerAnswer>;
}

export interface SharedBreakerStep {
  /** Names this process. */
  readonly holder: string;
  /** Outcomes of attempts in order: `s` success, `f` failure, `n` neutral. */
  readonly verdicts: string;
  /** Requests the probe: how long it may be in flight, in milliseconds; null: not requested. */
  readonly probeMs: number | null;
  /** Pause that the destination asked for, in milliseconds; null: none. */
  readonly pauseMs: number | null;
  /** Times in milliseconds. */
  readonly settings: { readonly failures: number; readonly pause: number; readonly longest: number };
}

/** Times are milliseconds from now; 0: none. */
export interface SharedBreakerAnswer {
  readonly state: BreakerState;
  /** Failures in a row, while closed. */
  readonly failures: number;
  readonly openMs: number;
  /** How long the probe in flight has left, and whether it belongs to the caller. */
  readonly probeMs: number;
  readonly ownsProbe: boolean;
  readonly pausedMs: number;
}

/** The rate of a destination, shared by all processes. */
export interface SharedRate {
  /**
   * Takes up to `want` tokens, and returns the time until the next one. Rejects when the store is down; the outcome is then
   * unknown.
   */
  take(request: SharedRateRequest): Promise<{ readonly taken: number; readonly waitMs: number }>;
}

export interface SharedRateRequest {
  readonly want: number;
  /** Milliseconds between two tokens, and how many milliseconds worth of tokens may be saved up. */
  readonly interval: number;
  readonly saved: number;
}

/** How a call ended. `lost`: unknown whether and when the service counted it; `not-sent`: it certainly did not. */
export type SlotEnd = "answered" | "lost" | "not-sent";

/**
 * What the processes of an account share: the slots that calls hold, and what the service's answers have shown. Each step
 * is atomic.
 */
export interface SharedCaps {
  /** Rejects when the result is unknown; the step may have happened all the same. */
  step(ask: SharedAsk): Promise<SharedAnswer>;
}

/** Kinds are indexes into `callKinds`. Ids are the holder's name and a number, `{holder}:{n}`. */
export interface SharedAsk {
  /** A unique name of the process. */
  readonly holder: string;
  /** Identifies the memory, as answered last; empty: not known yet. */
  readonly born: string;
  /** Most slots held by all processes together. */
  readonly limits: { readonly requests: number; readonly messages: number; readonly asks: number; readonly polls: number };
  /** Most calls in flight in all processes together; `others`: without sends. */
  readonly atOnce: { readonly all: number; readonly others: number };
  /** How long a call of unknown outcome may still be in flight. */
  readonly graceMs: number;
  /** Waiting calls by kind, without held ones. Replaces what the last step said. */
  readonly wants: readonly number[];
  /** Most slots to grant, limited by the calls in flight in this process; `others`: without sends. */
  readonly room: { readonly all: number; readonly others: number };
  /** Number in the id of the first granted slot; the others follow. */
  readonly firstId: number;
  readonly ended: readonly SharedEnd[];
  /** Slots of calls that are still in flight. */
  readonly renewed: readonly { readonly id: string; readonly kind: number }[];
  /** The version of the state that this process knows; 0: none. */
  readonly version: number;
  /** Stored only if version and newest call are unchanged. */
  readonly next: { readonly state: string; readonly newest: number } | null;
}

export interface SharedEnd {
  readonly id: string;
  /** Null: not used, and unknown whether it was granted. */
  readonly kind: number | null;
  readonly how: SlotEnd;
  readonly ageMs: number;
}

export interface SharedAnswer {
  readonly born: string;
  /** Ms of a shared clock that never goes back. */
  readonly now: number;
  /** Slots to use at once. `number`: of the call, over all processes. */
  readonly granted: readonly { readonly id: string; readonly kind: number; readonly number: number }[];
  /** By kind, for wants that were not all granted: when to look again, in ms; 0: when this process has room. */
  readonly waitMs: readonly number[];
  readonly used: { readonly requests: number; readonly messages: number };
  /** Number of the call dispatched last. */
  readonly newest: number;
  readonly version: number;
  /** Null: as the process knows it, or as this step stored it. */
  readonly state: string | null;
  readonly isStored: boolean;
}
