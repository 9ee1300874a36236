import { z } from "zod";
import { issueText } from "../model/issue-text.ts";
import { isObject, readPath } from "../model/json.ts";
import { compilePattern, PatternRefused } from "./pattern.ts";

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()], {
  error: "must be text, a number, true, false or null",
});
const orderable = z.union([z.string(), z.number()], { error: "must be text or a number" });

/** Of one condition, because every event pays its cost. */
export const conditionLimits = {
  levels: 16,
  paths: 200,
  patterns: 10,
  instructions: 1000,
} as const;

/** Of the value at a path. `undefined`: the path is missing. */
type ValueTest = (value: unknown) => boolean;

interface Operator {
  readonly schema: z.ZodType;
  /** The operand is one that the schema allows. */
  readonly test: (operand: never) => ValueTest;
}

function operator<S extends z.ZodType>(
  schema: S,
  about: string,
  test: (operand: z.infer<S>) => ValueTest,
): Operator {
  return { schema: schema.optional().describe(about), test };
}

/**
 * As in MongoDB's query language. docs/concepts/routing.md defines how values, arrays and missing
 * paths compare.
 */
const operators: Readonly<Record<string, Operator>> = {
  $eq: operator(scalar, "Equals this value.", (operand) => some((value) => value === operand)),
  $ne: operator(scalar, "Differs from this value.", (operand) => {
    const equal = some((value) => value === operand);
    return (value) => !equal(value);
  }),
  $in: operator(
    z.array(scalar).min(1, "is empty, so that nothing could match"),
    "Equals one of these.",
    (operand) => {
      const accepted = new Set<unknown>(operand);
      return some((value) => accepted.has(value));
    },
  ),
  $gt: operator(orderable, "Greater than.", (operand) =>
    ordered(operand, (value, bound) => value > bound),
  ),
  $gte: operator(orderable, "Greater than or equal to.", (operand) =>
    ordered(operand, (value, bound) => value >= bound),
  ),
  $lt: operator(orderable, "Less than.", (operand) =>
    ordered(operand, (value, bound) => value < bound),
  ),
  $lte: operator(orderable, "Less than or equal to.", (operand) =>
    ordered(operand, (value, bound) => value <= bound),
  ),
  $exists: operator(
    z.boolean(),
    "Whether the path exists.",
    (operand) => (value) => (value !== undefined) === operand,
  ),
  $startsWith: operator(z.string(), "Text that begins with this.", (operand) =>
    text((value) => value.startsWith(operand)),
  ),
  $endsWith: operator(z.string(), "Text that ends with this.", (operand) =>
    text((value) => value.endsWith(operand)),
  ),
  $regex: operator(
    z.string(),
    "Text that matches this pattern, in linear time.",
    (operand) => compilePattern(operand).test,
  ),
};
export const whereOperators = Object.keys(operators);

const comparisonSchema = z.strictObject(
  Object.fromEntries(Object.entries(operators).map(([name, { schema }]) => [name, schema])),
);

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
      $or: z
        .array(conditionSchema)
        .min(1)
        .optional()
        .describe("At least one of these conditions holds."),
      $and: z.array(conditionSchema).min(1).optional().describe("All of these conditions hold."),
      $not: conditionSchema.optional().describe("This condition does not hold."),
    })
    .catchall(z.union([scalar, comparisonSchema])),
) as z.ZodType<Where>;

type Context = z.core.$RefinementCtx;

/**
 * The schema alone would report most faults as "Invalid input" at the parent, and drop the path
 * `__proto__`.
 */
export const whereSchema = z.preprocess((value, context) => {
  reportFaults(value, context);
  return value;
}, conditionSchema);

function reportFaults(condition: unknown, context: Context): void {
  const used = { paths: 0, patterns: 0, instructions: 0 };
  const fault = (path: readonly PropertyKey[], message: string) =>
    context.addIssue({ code: "custom", path: [...path], message });
  /** Reports the first excess only. */
  const use = (
    what: keyof typeof used,
    count: number,
    path: readonly PropertyKey[],
    message: string,
  ) => {
    const isWithin = used[what] <= conditionLimits[what];
    used[what] += count;
    if (isWithin && used[what] > conditionLimits[what]) fault(path, message);
  };
  faultsOfCondition(condition, []);

  function faultsOfCondition(value: unknown, at: readonly PropertyKey[]): void {
    if (!isObject(value)) {
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
      } else if (Object.hasOwn(comparisonSchema.shape, key))
        fault(path, `stands under a path, as in { status: { ${key}: … } }`);
      else if (key.startsWith("$"))
        fault(path, "is not known ($or, $and and $not stand here, other operators under a path)");
      else if (key === "" || key === "__proto__") fault(path, "is not a path");
      else {
        use(
          "paths",
          1,
          path,
          `is one path too many: a condition has at most ${conditionLimits.paths}`,
        );
        faultsOfValue(part, path);
      }
    }
  }

  function faultsOfValue(value: unknown, at: readonly PropertyKey[]): void {
    if (!isObject(value)) {
      if (Array.isArray(value)) fault(at, "is a list; for one of several values use $in");
      else if (!scalar.safeParse(value).success)
        fault(at, "must be text, a number, true, false, null or operators");
      return;
    }
    if (Object.keys(value).length === 0) fault(at, `has no operator (${whereOperators.join(" ")})`);
    for (const issue of comparisonSchema.safeParse(value, { error: (issue) => issueText(issue) })
      .error?.issues ?? []) {
      if (issue.code !== "unrecognized_keys") fault([...at, ...issue.path], issue.message);
      else
        for (const key of issue.keys)
          fault(
            [...at, key],
            `is not an operator (${whereOperators.join(" ")}); inner fields are written with dots`,
          );
    }
    if (typeof value["$regex"] === "string") faultsOfPattern(value["$regex"], [...at, "$regex"]);
  }

  function faultsOfPattern(text: string, at: readonly PropertyKey[]): void {
    const { patterns, instructions } = conditionLimits;
    use("patterns", 1, at, `is one pattern too many: a condition has at most ${patterns}`);
    if (used.patterns > patterns) return;
    try {
      use(
        "instructions",
        compilePattern(text).size,
        at,
        `makes the patterns too large together: at most ${instructions} instructions`,
      );
    } catch (error) {
      if (!(error instanceof PatternRefused)) throw error;
      fault(at, error.message);
    }
  }
}

/** Null when the condition holds, else the first part that failed. */
export type Condition = (root: unknown) => string | null;

/**
 * The reason is `<label>: <path> <operator>`, `<label>: $or` or `<label>: $not`. A part of `$and`
 * has its own.
 */
export function compileWhere(where: Where, label: string): Condition {
  const conditions: Condition[] = [];
  for (const path of Object.keys(where)) {
    if (path !== "$or" && path !== "$and" && path !== "$not")
      conditions.push(compilePath(path, where[path], label));
  }
  if (where.$or !== undefined) {
    const parts = where.$or.map((part) => compileWhere(part, label));
    const reason = `${label}: $or`;
    conditions.push((root) => (parts.some((part) => part(root) === null) ? null : reason));
  }
  if (where.$and !== undefined)
    conditions.push(...where.$and.map((part) => compileWhere(part, label)));
  if (where.$not !== undefined) {
    const inner = compileWhere(where.$not, label);
    const reason = `${label}: $not`;
    conditions.push((root) => (inner(root) === null ? reason : null));
  }
  return all(conditions);
}

function all(conditions: readonly Condition[]): Condition {
  const [only] = conditions;
  if (only !== undefined && conditions.length === 1) return only;
  return (root) => {
    for (const condition of conditions) {
      const reason = condition(root);
      if (reason !== null) return reason;
    }
    return null;
  };
}

function compilePath(path: string, wanted: unknown, label: string): Condition {
  const isScalar = typeof wanted !== "object" || wanted === null;
  const comparison = (isScalar ? { $eq: wanted } : wanted) as Readonly<Record<string, never>>;
  const tests = Object.entries(operators).flatMap(([name, { test }]) => {
    const operand = comparison[name];
    return operand === undefined
      ? []
      : [{ test: test(operand), reason: `${label}: ${path} ${name}` }];
  });
  return (root) => {
    const value = readPath(root, path);
    for (const { test, reason } of tests) if (!test(value)) return reason;
    return null;
  };
}

function some(test: ValueTest): ValueTest {
  return (value) => (Array.isArray(value) ? value.some(test) : test(value));
}

function text(test: (value: string) => boolean): ValueTest {
  return some((value) => typeof value === "string" && test(value));
}

/** Never converts: JavaScript would find "10" greater than 9. */
function ordered(
  operand: string | number,
  holds: (value: string | number, bound: string | number) => boolean,
): ValueTest {
  return some(
    (value) => typeof value === typeof operand && holds(value as string | number, operand),
  );
}
