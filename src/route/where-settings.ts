import { z } from "zod";

/** Comparison operators of `where`, in the manner of MongoDB's query language. */
export const whereOperators = ["$eq", "$ne", "$in", "$gt", "$gte", "$lt", "$lte", "$exists", "$startsWith", "$endsWith", "$regex"] as const;

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], { error: "must be text, a number, true, false or null" });
const ordered = z.union([z.string(), z.number()], { error: "must be text or a number" });

const regexText = z.string().superRefine((text, context) => {
  try {
    new RegExp(text, "u");
  } catch (error) {
    context.addIssue({ code: "custom", message: `is not a regular expression: ${(error as Error).message}` });
  }
});

const comparisonSchema = z.strictObject({
  $eq: scalar.optional(),
  $ne: scalar.optional(),
  $in: z.array(scalar).min(1, "is empty, so that nothing could match").optional(),
  $gt: ordered.optional(),
  $gte: ordered.optional(),
  $lt: ordered.optional(),
  $lte: ordered.optional(),
  $exists: z.boolean().optional(),
  $startsWith: z.string().optional(),
  $endsWith: z.string().optional(),
  $regex: regexText.optional(),
});
export type Comparison = z.infer<typeof comparisonSchema>;

/** A condition on `data`: dotted paths to a value or to operators, and `$or` `$and` `$not` around conditions. */
export interface Where {
  readonly $or?: readonly Where[] | undefined;
  readonly $and?: readonly Where[] | undefined;
  readonly $not?: Where | undefined;
  readonly [path: string]: unknown;
}

/** The shape alone: what editors get as JSON Schema. */
const conditionSchema: z.ZodType<Where> = z.lazy(() =>
  z
    .object({
      $or: z.array(conditionSchema).min(1).optional(),
      $and: z.array(conditionSchema).min(1).optional(),
      $not: conditionSchema.optional(),
    })
    .catchall(z.union([scalar, comparisonSchema])),
) as z.ZodType<Where>;

type Context = z.core.$RefinementCtx;

/**
 * The faults are looked for first, one key at a time: the shape alone would call most of them "Invalid input" at
 * the path above, since a value may be of either of two kinds, and would drop the path `__proto__` without a word.
 */
export const whereSchema = z.preprocess((value, context) => {
  reportFaults(value, [], context);
  return value;
}, conditionSchema);

function reportFaults(value: unknown, at: readonly PropertyKey[], context: Context): void {
  const fault = (path: readonly PropertyKey[], message: string) => context.addIssue({ code: "custom", path: [...path], message });
  if (!isMapping(value)) {
    fault(at, "is not a condition (paths with values or operators, $or, $and, $not)");
    return;
  }
  for (const [key, part] of Object.entries(value)) {
    const path = [...at, key];
    if (key === "$not") reportFaults(part, path, context);
    else if (key === "$or" || key === "$and") {
      if (!Array.isArray(part)) fault(path, "must be a list of conditions");
      else if (part.length === 0) fault(path, "is empty");
      else for (const [index, each] of part.entries()) reportFaults(each, [...path, index], context);
    } else if ((whereOperators as readonly string[]).includes(key)) fault(path, `stands under a path, as in { status: { ${key}: … } }`);
    else if (key.startsWith("$")) fault(path, "is not known ($or, $and and $not stand here, other operators under a path)");
    else if (key === "" || key === "__proto__") fault(path, "is not a path");
    else reportValueFaults(part, path, context);
  }
}

function reportValueFaults(value: unknown, at: readonly PropertyKey[], context: Context): void {
  const fault = (path: readonly PropertyKey[], message: string) => context.addIssue({ code: "custom", path: [...path], message });
  if (!isMapping(value)) {
    if (Array.isArray(value)) fault(at, "is a list; for one of several values use $in");
    else if (!scalar.safeParse(value).success) fault(at, "must be text, a number, true, false, null or operators");
    return;
  }
  if (Object.keys(value).length === 0) fault(at, `has no operator (${whereOperators.join(" ")})`);
  for (const issue of comparisonSchema.safeParse(value).error?.issues ?? []) {
    if (issue.code !== "unrecognized_keys") fault([...at, ...issue.path], issue.message);
    else
      for (const key of issue.keys)
        fault([...at, key], `is not an operator (${whereOperators.join(" ")}); inner fields are written with dots`);
  }
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
