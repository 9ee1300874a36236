/** How a call ended. `lost`: unknown whether and when the service counted it; `not-sent`: it certainly did not. */
export type SlotEnd = "answered" | "lost" | "not-sent";

/**
 * What the processes of an account share: the slots that calls hold, and what the service's answers have shown. Each step
 * is atomic.
 */
export interface SharedCaps {
  /** Rejects when the result is unknown; the step may have happened all the same. */
  step(request: SharedStep): Promise<SharedAnswer>;
}

/** One step of a process. Kinds are indexes into `callKinds` (service/limits/slots.ts). Ids are the holder's name and a number, `{holder}:{n}`. */
export interface SharedStep {
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
