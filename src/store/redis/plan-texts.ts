import { createHash } from "node:crypto";
import type { DeliveryPlan } from "../../event/plan.ts";
import { type KeptVerdict, keptVerdicts } from "../rules.ts";

export interface PlanText {
  /** What an event has of it. */
  readonly digest: string;
  /** What is kept once for all events with these verdicts. */
  readonly verdicts: string;
}

// The planner gives the same object for the same verdicts, so identity finds nearly all of them.
const known = new WeakMap<DeliveryPlan, PlanText>();

/** The verdicts of a plan as they are kept. Reasons depend on the settings alone, so there are few. */
export function planText(plan: DeliveryPlan): PlanText {
  const found = known.get(plan);
  if (found !== undefined) return found;
  const verdicts = JSON.stringify(keptVerdicts(plan));
  const text = { digest: digestOf(verdicts), verdicts };
  known.set(plan, text);
  return text;
}

export const digestOf = (verdicts: string): string => createHash("sha256").update(verdicts).digest("base64url").slice(0, 12);

export const readVerdicts = (text: string | null): readonly KeptVerdict[] => (text === null ? [] : (JSON.parse(text) as KeptVerdict[]));
