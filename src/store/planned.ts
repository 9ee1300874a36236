/** A delivery that waits for its time: the dispatcher's wake-up. `event` is the event's seq, `at` unix ms. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
  readonly at: number;
}

export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };
