/** A delivery that has become due: the dispatcher's wake-up. `event` is the event's seq. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
}

export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };
