import type { AnswerOf } from "../../client/relay-client.ts";
import { type AttentionKind, about, conditionOf, conditions } from "../../model/attention.ts";
import type { DatabaseRisk } from "../../model/database.ts";
import { type Finding, ok } from "./finding.ts";

/** An entry of the console's list. */
type Entry = Pick<AnswerOf<"getOverview">["attention"][number], "kind" | "severity" | "subject" | "text">;

const checks: Record<AttentionKind, string> = {
  "store-failing": "store",
  "database-unsafe": "postgres durability",
  "database-strained": "postgres",
  "no-webhooks": "webhooks",
  "destination-stopped": "destination",
  "destination-failing": "destination",
  "destination-paused": "destination",
  "destination-slow": "destination",
  "account-stopped": "service",
  "reconcile-failing": "polls",
  "dead-letters": "dead letters",
  quarantined: "quarantine",
  unassigned: "numbers",
  "settings-refused": "reload",
};

/** Other checks report these, with the state of the settings file. */
const reportedElsewhere: ReadonlySet<AttentionKind> = new Set(["store-failing", "settings-refused"]);

export function judgeRisk({ condition, text, cure }: DatabaseRisk): Finding {
  const { kind, severity } = conditions[condition];
  return { check: checks[kind], level: severity === "error" ? "fail" : "warn", message: text, todo: cure };
}

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
