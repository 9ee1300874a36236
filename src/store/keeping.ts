/** How long rows are kept, in milliseconds (DESIGN.md, `retention`). */
export interface RetentionTimes {
  readonly events: number;
  readonly ignored: number;
  readonly deliveries: number;
  readonly messages: number;
}

/** What one step of retention took away. */
export interface Swept {
  readonly events: number;
  readonly deliveries: number;
  readonly messages: number;
  /** True when a whole pass over everything old is done, and the room it freed given back. */
  readonly done: boolean;
}
