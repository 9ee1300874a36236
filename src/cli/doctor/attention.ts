import { attentionOf, routeFacts } from "../../app/attention.ts";
import type { Settings } from "../../config/schema.ts";
import { type AttentionKind, about, conditionOf, conditions } from "../../model/attention.ts";
import type { Attention } from "../../model/overview.ts";
import type { BreakerView } from "../../model/shared-limits.ts";
import type { StopView } from "../../service/accounts.ts";
import type { QuarantineCount, RouteBacklog, Unplanned } from "../../store/views.ts";
import { type Finding, ok } from "./finding.ts";

/** An entry of the console's list. */
export type Entry = Pick<Attention, "kind" | "severity" | "subject" | "text">;

/** What a store shows without its relay. */
export interface StoredFacts {
  readonly backlog: readonly RouteBacklog[];
  readonly breakers: ReadonlyMap<string, BreakerView>;
  readonly quarantine: QuarantineCount;
  readonly unplanned: Unplanned;
}

/** The list, judged here because no relay gives it. */
export function attentionInStore(
  { backlog, breakers, quarantine, unplanned }: StoredFacts,
  stops: readonly StopView[],
  routes: Settings["routes"],
  now: number,
): Entry[] {
  const byRoute = new Map(backlog.map((entry) => [entry.route, entry]));
  const facts = {
    now,
    routes: routes.map(({ name }) => routeFacts(name, byRoute.get(name), breakers.get(name))),
    quarantine,
    unplanned,
    alarms: [],
    stops,
    storeFailure: null,
    reload: { result: "applied" as const, at: now, faults: [] },
    unreachable: [],
  };
  return attentionOf(facts, () => now);
}

const checks: Record<AttentionKind, string> = {
  "store-failing": "store",
  unplanned: "planning",
  "no-webhooks": "webhooks",
  "destination-stopped": "destination",
  "destination-failing": "destination",
  "destination-paused": "destination",
  "destination-slow": "destination",
  "account-stopped": "service",
  "reconcile-failing": "polls",
  "dead-letters": "dead letters",
  quarantined: "quarantine",
  "settings-refused": "reload",
};

/** Other checks report these, with the state of the settings file. */
const reportedElsewhere: ReadonlySet<AttentionKind> = new Set(["store-failing", "settings-refused"]);

/** In the words of the console, with the command that helps. */
export function judgeAttention(entries: readonly Entry[]): Finding[] {
  const found = entries.filter(({ kind }) => !reportedElsewhere.has(kind));
  if (found.length === 0) return [ok("attention", "nothing needs action")];
  return found.map(({ kind, severity, subject, text }) => {
    const { command } = conditions[conditionOf({ kind, severity })];
    const todo = command === undefined ? {} : { todo: about(command, subject) };
    return { check: checks[kind], level: severity === "error" ? "fail" : "warn", message: text, ...todo };
  });
}
