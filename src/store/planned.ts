/** A delivery that waits for its time: the dispatcher's wake-up. `event` is the event's seq, `at` unix ms. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
  readonly at: number;
}

/** `disposition` is `accepted` of an event that another process tracks and plans. */
export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };

/** What became of an event that was only accepted. */
export interface Planned {
  readonly seq: number;
  readonly source: string;
  readonly disposition: string;
  /** Why it could not be judged, and goes nowhere. */
  readonly fault: string | null;
  readonly due: readonly DueDelivery[];
}

export interface PlannedSome {
  /** By this process, in their order. */
  readonly planned: readonly Planned[];
  /** Seqs that were taken off the list, because their rows are not there or cannot be read. */
  readonly lost: readonly string[];
  /** `others`: another process was faster with all that was looked at. */
  readonly left: "none" | "some" | "others";
}
