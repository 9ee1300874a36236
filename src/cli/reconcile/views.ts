import { z } from "zod";

const stopped = z.looseObject({ reason: z.string(), until: z.string().nullable(), detail: z.string().optional() }).nullable();
const common = {
  account: z.string(),
  leftForBudget: z.number(),
  unaskable: z.number(),
  missing: z.number(),
  stopped,
  lastsUntil: z.string().nullable(),
};

const accountSchema = z.looseObject({ ...common, asked: z.number(), changed: z.number(), unchanged: z.number(), failed: z.number() });
export type AccountView = z.infer<typeof accountSchema>;

const accountPlanSchema = z.looseObject({ ...common, due: z.number(), wouldAsk: z.number() });
export type AccountPlanView = z.infer<typeof accountPlanSchema>;

export const reconciledSchema = z.looseObject({ dueBy: z.string(), more: z.boolean(), accounts: z.array(accountSchema) });
export const plannedSchema = z.looseObject({ dueBy: z.string(), accounts: z.array(accountPlanSchema) });

/** Two steps of a pass over one account: what was done adds up, how things stand is as the later one says. */
export function addUp(before: AccountView | undefined, step: AccountView): AccountView {
  if (before === undefined) return step;
  const counts = ["asked", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}
