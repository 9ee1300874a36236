import {
  type BudgetAnswer,
  type BudgetRequest,
  type Budgets,
  type Limits,
  limitsFrom,
  type StoredStops,
} from "../../src/model/budget.ts";
import { planCaps } from "../../src/service/limits/caps.ts";
import {
  createLimiter,
  type Limiter,
  type LimiterOptions,
} from "../../src/service/limits/limiter.ts";
import { type BudgetRow, decideBudget, withNews } from "../../src/store/work/budgets.ts";
import { createManualClock, type ManualClock } from "./manual-clock.ts";

/** A process of the account, as far as its caps go. */
export interface Party {
  readonly limiter: Limiter;
  /** Ends it as `kill -9` would. */
  kill(): void;
  /** What happens to its next steps; `lost`: done, but the answer does not come. */
  fail: "no" | "down" | "lost";
}

/** What processes need of a store, in memory. */
export function createMemoryBudgets(
  now: () => number,
): Budgets & { parts(): Limits; steps(): number } {
  const rows = new Map<string, BudgetRow>();
  let stops: StoredStops = { plan: "", stops: {} };
  let steps = 0;
  return {
    async step(request: BudgetRequest): Promise<BudgetAnswer> {
      steps += 1;
      const { limits, row, othersUsed } = decideBudget([...rows.values()], request, now());
      if (row === null) rows.delete(request.process);
      else rows.set(request.process, row);
      stops = withNews(stops, request.news);
      return { limits, othersUsed, stops };
    },
    /** All that is given now. */
    parts() {
      const held = [...rows.values()].filter(({ countsUntil }) => countsUntil > now());
      return limitsFrom((kind) => held.reduce((sum, { part }) => sum + part[kind], 0));
    },
    steps: () => steps,
  };
}

/** Processes of one account on one clock; their own clocks differ by `ahead`. */
export function createParties(
  budgets?: (clock: ManualClock) => Budgets,
  rest?: () => Promise<void>,
) {
  const clock = createManualClock(1_800_000_000_000, rest);
  const memory = createMemoryBudgets(clock.now);
  const shared = budgets?.(clock) ?? memory;

  function join(
    options: Partial<LimiterOptions> = {},
    { ahead = 0, delay = (): number => 0 } = {},
  ): Party {
    let isDead = false;
    const party = { fail: "no" as Party["fail"] };
    const wait = () => new Promise<void>((resolve) => void clock.after(delay(), resolve));
    const own = {
      now: () => clock.now() + ahead,
      after: (ms: number, act: () => void) => clock.after(ms, () => isDead || act()),
    };
    const limiter = createLimiter({
      caps: planCaps.escala,
      share: 1,
      clock: own,
      ...options,
      budgets: {
        async step(request) {
          if (delay() > 0) await wait();
          if (isDead) return new Promise(() => {});
          if (party.fail === "down") throw new Error("down");
          const answer = await shared.step(request);
          if (delay() > 0) await wait();
          if (party.fail === "lost") throw new Error("lost");
          return isDead ? await new Promise<never>(() => {}) : answer;
        },
      },
    } as LimiterOptions);
    return Object.assign(party, {
      limiter,
      kill() {
        isDead = true;
      },
    });
  }

  return { clock, memory, join };
}

/** Most of these times that lie in one window of a minute, wherever it begins. */
export function mostInAWindow(times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  let first = 0;
  let most = 0;
  for (const [index, at] of sorted.entries()) {
    while ((sorted[first] as number) <= at - 60_000) first += 1;
    most = Math.max(most, index - first + 1);
  }
  return most;
}
