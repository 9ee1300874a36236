import type { Settings } from "../config/schema.ts";
import { startOf } from "../hydrate/candidates.ts";
import { createPlanner, type Planner } from "../route/plan.ts";
import { isCallable } from "../service/accounts.ts";
import type { Rules } from "../store/rules.ts";
import { stepMessage, stepRun } from "../track/states.ts";

export interface ReloadableRules extends Rules {
  reload(settings: Settings): void;
}

const unrouted = { ordered: true, firstWait: 0 };

/** The pure rules that the store runs inside its transaction, from the settings in force. */
export function createRules(settings: Settings, failed: NonNullable<Rules["failed"]>): ReloadableRules {
  let planner: Planner;
  let timings: Map<string, { ordered: boolean; firstWait: number }>;
  let parkFor: number;
  /** Accounts whose service can be asked. */
  let asked: ReadonlySet<string>;

  function reload({ accounts, routes, tracking }: Settings): void {
    planner = createPlanner(
      routes.map(({ name, match, emit, truncated }) => ({ name, match, emit, truncated })),
      tracking.unknown,
    );
    timings = new Map(routes.map(({ name, to }) => [name, { ordered: to.order === "message", firstWait: to.retry.schedule[0] ?? 0 }]));
    parkFor = tracking.parkFor;
    asked = new Set(Object.keys(accounts).filter((name) => isCallable(accounts[name])));
  }

  reload(settings);
  return {
    stepMessage,
    stepRun,
    plan: (event, tracking) => planner(event, tracking),
    failed,
    timing: (route) => timings.get(route) ?? unrouted,
    hydration: ({ event, account, hasSubject }) => startOf({ event, hasSubject, hasKey: asked.has(account) }),
    get parkFor() {
      return parkFor;
    },
    reload,
  };
}
