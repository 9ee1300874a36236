/**
 * `requests` and `messages` are an account's caps; `poll` limits polls. `calls`, of them `polling`
 * polls, limits calls in flight and those that the service refused because of the key within the
 * last minute.
 */
export const slotKinds = ["requests", "messages", "poll", "calls", "polling"] as const;
export type SlotKind = (typeof slotKinds)[number];
export type Limits = Readonly<Record<SlotKind, number>>;

export function limitsFrom(numberOf: (kind: SlotKind) => number): Limits {
  return Object.fromEntries(slotKinds.map((kind) => [kind, numberOf(kind)])) as Limits;
}

export interface Budgets {
  /** Rejects when the result is unknown; the step may have happened all the same. */
  step(request: BudgetRequest): Promise<BudgetAnswer>;
}

export interface BudgetRequest {
  readonly process: string;
  readonly caps: Limits;
  readonly used: Limits;
  /** What this process cannot give back now. It keeps to this until the answer comes. */
  readonly keep: Limits;
  /**
   * What the calls that run or wait need, and with how much it would run without asking soon again.
   */
  readonly need: Limits;
  readonly want: Limits;
  /**
   * How long it may use its part without another step, and how long after that its calls may still
   * count.
   */
  readonly leaseMs: number;
  readonly countsMs: number;
  readonly news: BudgetNews | null;
}

export interface BudgetNews {
  readonly plan: string;
  readonly stops: Readonly<Record<string, StoredStop | null>>;
}

export interface StoredStop {
  readonly resource: string | null;
  readonly renewsAt: number | null;
  readonly until: number;
}

export interface StoredStops {
  readonly plan: string;
  readonly stops: Readonly<Record<string, StoredStop>>;
}

export interface BudgetAnswer {
  readonly limits: Limits;
  readonly othersUsed: Limits;
  readonly stops: StoredStops;
}
