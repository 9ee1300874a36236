import { z } from "zod";
import { issueText } from "../model/issue-text.ts";
import { compilePattern, PatternRefused } from "./pattern.ts";

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], { error: "must be text, a number, true, false or null" });
const ordered = z.union([z.string(), z.number()], { error: "must be text or a number" });

/** Of one condition, because every event pays its cost. */
export const conditionLimits = { levels: 16, paths: 200, patterns: 10, instructions: 1000 } as const;

const comparisonSchema = z.strictObject({
  $eq: scalar.optional().describe("Equals this value."),
  $ne: scalar.optional().describe("Differs from this value."),
  $in: z.array(scalar).min(1, "is empty, so that nothing could match").optional().describe("Equals one of these."),
  $gt: ordered.optional().describe("Greater than."),
  $gte: ordered.optional().describe("Greater than or equal to."),
  $lt: ordered.optional().describe("Less than."),
  $lte: ordered.optional().describe("Less than or equal to."),
  $exists: z.boolean().optional().describe("Whether the path exists."),
  $startsWith: z.string().optional().describe("Text that begins with this."),
  $endsWith: z.string().optional().describe("Text that ends with this."),
  $regex: z.string().optional().describe("Text that matches this pattern, in linear time."),
});
export type Comparison = z.infer<typeof comparisonSchema>;

/** As in MongoDB's query language. */
export const whereOperators = Object.keys(comparisonSchema.shape) as (keyof Comparison)[];

export interface Where {
  readonly $or?: readonly Where[] | undefined;
  readonly $and?: readonly Where[] | undefined;
  readonly $not?: Where | undefined;
  readonly [path: string]: unknown;
}

/** The shape alone, which editors get as JSON Schema. */
const conditionSchema: z.ZodType<Where> = z.lazy(() =>
  z
    .object({
      $or: z.array(conditionSchema).min(1).optional().describe("At least one of these conditions holds."),
      $and: z.array(conditionSchema).min(1).optional().describe("All of these conditions hold."),
      $not: conditionSchema.optional().describe("This condition does not hold."),
    })
    .catchall(z.union([scalar, comparisonSchema])),
) as z.ZodType<Where>;

type Context = z.core.$RefinementCtx;

/** The schema alone would report most faults as "Invalid input" at the parent, and drop the path `__proto__`. */
export const whereSchema = z.preprocess((value, context) => {
  reportFaults(value, context);
  return value;
}, conditionSchema);

function reportFaults(condition: unknown, context: Context): void {
  const used = { paths: 0, patterns: 0, instructions: 0 };
  const fault = (path: readonly PropertyKey[], message: string) => context.addIssue({ code: "custom", path: [...path], message });
  /** Reports the first excess only. */
  const use = (what: keyof typeof used, count: number, path: readonly PropertyKey[], message: string) => {
    const isWithin = used[what] <= conditionLimits[what];
    used[what] += count;
    if (isWithin && used[what] > conditionLimits[what]) fault(path, message);
  };
  faultsOfCondition(condition, []);

  function faultsOfCondition(value: unknown, at: readonly PropertyKey[]): void {
    if (!isMapping(value)) {
      fault(at, "is not a condition (paths with values or operators, $or, $and, $not)");
      return;
    }
    // Keys and list indexes alternate: a condition inside $or is two steps down.
    if (at.filter((step) => typeof step === "string").length > conditionLimits.levels) {
      fault(at, `is nested more than ${conditionLimits.levels} levels deep`);
      return;
    }
    for (const [key, part] of Object.entries(value)) {
      const path = [...at, key];
      if (key === "$not") faultsOfCondition(part, path);
      else if (key === "$or" || key === "$and") {
        if (!Array.isArray(part)) fault(path, "must be a list of conditions");
        else if (part.length === 0) fault(path, "is empty");
        else for (const [index, each] of part.entries()) faultsOfCondition(each, [...path, index]);
      } else if (Object.hasOwn(comparisonSchema.shape, key)) fault(path, `stands under a path, as in { status: { ${key}: … } }`);
      else if (key.startsWith("$")) fault(path, "is not known ($or, $and and $not stand here, other operators under a path)");
      else if (key === "" || key === "__proto__") fault(path, "is not a path");
      else {
        use("paths", 1, path, `is one path too many: a condition has at most ${conditionLimits.paths}`);
        faultsOfValue(part, path);
      }
    }
  }

  function faultsOfValue(value: unknown, at: readonly PropertyKey[]): void {
    if (!isMapping(value)) {
      if (Array.isArray(value)) fault(at, "is a list; for one of several values use $in");
      else if (!scalar.safeParse(value).success) fault(at, "must be text, a number, true, false, null or operators");
      return;
    }
    if (Object.keys(value).length === 0) fault(at, `has no operator (${whereOperators.join(" ")})`);
    for (const issue of comparisonSchema.safeParse(value, { error: (issue) => issueText(issue) }).error?.issues ?? []) {
      if (issue.code !== "unrecognized_keys") fault([...at, ...issue.path], issue.message);
      else
        for (const key of issue.keys)
          fault([...at, key], `is not an operator (${whereOperators.join(" ")}); inner fields are written with dots`);
    }
    if (typeof value["$regex"] === "string") faultsOfPattern(value["$regex"], [...at, "$regex"]);
  }

  function faultsOfPattern(text: string, at: readonly PropertyKey[]): void {
    const { patterns, instructions } = conditionLimits;
    use("patterns", 1, at, `is one pattern too many: a condition has at most ${patterns}`);
    if (used.patterns > patterns) return;
    try {
      use("instructions", compilePattern(text).size, at, `makes the patterns too large together: at most ${instructions} instructions`);
    } catch (error) {
      if (!(error instanceof PatternRefused)) throw error;
      fault(at, error.message);
    }
  }
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export const matchSchema = z.strictObject({
  events: z.array(z.string().min(1)).min(1).default(["*"]).describe("Event kinds, with * for any run of characters."),
  statuses: z.array(z.string().min(1)).min(1).optional().describe("Statuses that the event reports."),
  sources: z.array(z.string()).min(1).optional().describe("Sources that received it."),
  accounts: z.array(z.string()).min(1).optional().describe("Accounts that it belongs to."),
  tracked: z.boolean().optional().describe("true: only registered messages and runs. false: only others."),
  errorCodes: z
    .array(z.union([z.string(), z.number()]).transform(String))
    .min(1)
    .optional()
    .describe("Error codes. Numbers count as their text."),
  references: z.array(z.string().min(1)).min(1).optional().describe("Patterns, with *, for the reference given at registration."),
  metadata: whereSchema.optional().describe("Condition on the metadata given at registration."),
  where: whereSchema.optional().describe("Condition on the event's data: dotted paths to a value or to operators."),
});
export type Match = z.infer<typeof matchSchema>;

export const routingSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)")
    .describe("The route's name, which is stored with its deliveries. Unique."),
  match: matchSchema.prefault({}).describe("Which events it takes. All criteria given must hold. Default: every event."),
  emit: z.enum(["events", "transitions"]).default("events").describe("events: each event. transitions: only events that moved a status."),
  truncated: z
    .enum(["forward", "hold"])
    .default("forward")
    .describe(
      "For a truncated event, while the relay hydrates it: forward it at once, or hold it and forward it only when hydration may have missed something.",
    ),
});
export type RoutingSettings = z.infer<typeof routingSchema>;

/** For routes for tracked messages. */
export const trackingSchema = z.enum(["park", "ignore", "forward"]);
export type UnknownPolicy = z.infer<typeof trackingSchema>;
