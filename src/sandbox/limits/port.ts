import type { AccountRecord, KeyRecord, Usage } from "../world/records.ts";

export interface Caller {
  readonly account: AccountRecord;
  readonly key: KeyRecord;
}

/** Who may call, and how often (messaging-service-api.md, "Authentication" and "Limits"). All throw ApiFault. */
export interface Limits {
  /** By the Authorization header, from an address. Counts bad keys, and blocks addresses. */
  authenticate(authorization: string | undefined, address: string): Caller;
  /** Counts a call against the per-minute caps and the monthly quota. `POST /messages` counts against both caps. */
  admit(account: AccountRecord, call: "message" | "other"): void;
  /** Counts one of a monthly quota; false when it is used up. */
  spend(account: AccountRecord, what: Exclude<keyof Usage, "month" | "apiCalls">): boolean;
  /** The usage of this month as it is now. */
  usage(account: AccountRecord): Usage;
  /** The usage as the settings page shows it: up to half a minute late. */
  shownUsage(account: AccountRecord): Usage;
  /**
   * Requests to the API in the busiest sliding 60 s so far, and in the last 60 s, counted on arrival. Apart from them
   * `refused`: all those that `admit` did not let in.
   */
  perMinute(account: string): {
    readonly requests: { readonly last: number; readonly peak: number };
    readonly messages: { readonly last: number; readonly peak: number };
    readonly refused: number;
  };
}
