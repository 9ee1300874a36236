import type { SlotEnd } from "./slots.ts";

/**
 * What all processes of an account have in common: the slots that calls hold, and what the service's answers taught.
 * One step, in which nothing of another process comes between.
 */
export interface SharedCaps {
  /** Rejects when it cannot be known; the step may have happened all the same. */
  step(ask: SharedAsk): Promise<SharedAnswer>;
}

/** Kinds are indexes into `callKinds`. Ids are the holder's name and a number, `{holder}:{n}`. */
export interface SharedAsk {
  /** The process, by a name that no other has. */
  readonly holder: string;
  /** By what the memory is known again, as it was answered last; empty: not asked yet. */
  readonly born: string;
  /** Most slots held, by all processes together. */
  readonly limits: { readonly requests: number; readonly messages: number; readonly asks: number; readonly polls: number };
  /** Most calls under way, of all processes together; `others`: of those that are no sends. */
  readonly atOnce: { readonly all: number; readonly others: number };
  /** How long a call of unknown outcome may still be on its way. */
  readonly graceMs: number;
  /** Calls that wait, by kind, and are not held. Each step says anew what this process waits for. */
  readonly wants: readonly number[];
  /** Of these, no more are granted than may be under way here, `others`: that are no sends. */
  readonly room: { readonly all: number; readonly others: number };
  /** Number in the id of the first slot that is granted; the others follow. */
  readonly firstId: number;
  readonly ended: readonly SharedEnd[];
  /** Slots of calls that are still under way. */
  readonly renewed: readonly { readonly id: string; readonly kind: number }[];
  /** The version of the state that this process knows; 0: none. */
  readonly version: number;
  /** To be stored, if neither version nor newest call is another by now. */
  readonly next: { readonly state: string; readonly newest: number } | null;
}

export interface SharedEnd {
  readonly id: string;
  /** Null: whether it was granted at all is not known, and it was not used. */
  readonly kind: number | null;
  readonly how: SlotEnd;
  readonly ageMs: number;
}

export interface SharedAnswer {
  readonly born: string;
  /** Ms on a clock that all share and that never goes back. */
  readonly now: number;
  /** Free to be used at once. `number`: of the call, over all processes. */
  readonly granted: readonly { readonly id: string; readonly kind: number; readonly number: number }[];
  /** By kind, for wants that were not all granted: in how many ms another look is worth it; 0: when there is room here. */
  readonly waitMs: readonly number[];
  readonly used: { readonly requests: number; readonly messages: number };
  /** Number of the call let go last. */
  readonly newest: number;
  readonly version: number;
  /** Null: as the asker knows it, or as it was stored by this step. */
  readonly state: string | null;
  readonly isStored: boolean;
}
