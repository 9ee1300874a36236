import fc from "fast-check";
import { expect, test } from "vitest";
import {
  compileWhere,
  conditionLimits,
  type Where,
  whereSchema,
} from "../../../src/route/where.ts";

const scalar = fc.constantFrom<(string | number | boolean | null)[]>(
  "",
  "a",
  "b",
  "ab",
  "1",
  0,
  1,
  2.5,
  -1,
  true,
  false,
  null,
);
const ordered = fc.constantFrom<(string | number)[]>("", "a", "ab", "1", 0, 1, 2.5);
const path = fc.constantFrom("a", "b", "a.b", "a.0", "a.b.length", "b.constructor", "toString");
const text = fc.constantFrom("", "a", "b", "ab", "1");

const comparison = fc
  .record(
    {
      $eq: scalar,
      $ne: scalar,
      $in: fc.array(scalar, { minLength: 1, maxLength: 3 }),
      $gt: ordered,
      $gte: ordered,
      $lt: ordered,
      $lte: ordered,
      $exists: fc.boolean(),
      $startsWith: text,
      $endsWith: text,
      $regex: fc.constantFrom("a", "^a", "b$", ".", "^$"),
    },
    { requiredKeys: [] },
  )
  .filter((operators) => Object.keys(operators).length > 0);

const { where } = fc.letrec<{ where: Where }>((tie) => ({
  where: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.dictionary(path, fc.oneof(scalar, comparison), { maxKeys: 2, noNullPrototype: true }),
    fc
      .record(
        {
          $or: fc.array(tie("where"), { minLength: 1, maxLength: 3 }),
          $and: fc.array(tie("where"), { minLength: 1, maxLength: 3 }),
          $not: tie("where"),
          a: fc.oneof(scalar, comparison),
        },
        { requiredKeys: [] },
      )
      .map((parts) => parts as Where),
  ),
}));

const value = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 3 }),
  fc.record({ b: fc.oneof(scalar, fc.array(scalar, { maxLength: 2 })) }),
);
const data = fc.record({ a: value, b: value }, { requiredKeys: [] });

const holds = (condition: Where, root: unknown) => compileWhere(condition, "where")(root) === null;

/** docs/concepts/routing.md once more, read out word by word and without compiling anything. */
function naive(condition: Where, root: unknown): boolean {
  return Object.entries(condition).every(([key, part]) => {
    if (key === "$or") return (part as Where[]).some((each) => naive(each, root));
    if (key === "$and") return (part as Where[]).every((each) => naive(each, root));
    if (key === "$not") return !naive(part as Where, root);
    let found: unknown = root;
    let there = true;
    for (const step of key.split(".")) {
      there &&=
        typeof found === "object" &&
        found !== null &&
        Object.getOwnPropertyNames(found).includes(step);
      found = there ? (found as Record<string, unknown>)[step] : undefined;
    }
    const operators =
      typeof part === "object" && part !== null ? Object.entries(part) : [["$eq", part] as const];
    return operators.every(([operator, operand]) => compare(operator, operand, found, there));
  });
}

function compare(operator: string, operand: unknown, found: unknown, there: boolean): boolean {
  if (operator === "$exists") return there === operand;
  if (operator === "$ne") return !there || !compare("$eq", operand, found, there);
  if (!there) return false;
  const candidates: unknown[] = Array.isArray(found) ? found : [found];
  return candidates.some((candidate) => {
    if (operator === "$eq") return candidate === operand;
    if (operator === "$in") return (operand as unknown[]).includes(candidate);
    if (operator === "$startsWith")
      return (
        typeof candidate === "string" && candidate.slice(0, (operand as string).length) === operand
      );
    if (operator === "$endsWith")
      return typeof candidate === "string" && candidate.endsWith(operand as string);
    if (operator === "$regex")
      return typeof candidate === "string" && candidate.match(operand as string) !== null;
    const both = [candidate, operand];
    if (
      !both.every((each) => typeof each === "number") &&
      !both.every((each) => typeof each === "string")
    )
      return false;
    const order = candidate === operand ? 0 : (candidate as string) < (operand as string) ? -1 : 1;
    if (operator === "$gt") return order > 0;
    if (operator === "$gte") return order >= 0;
    if (operator === "$lt") return order < 0;
    return order <= 0;
  });
}

test("agrees with a naive implementation, and the schema changes nothing", () => {
  fc.assert(
    fc.property(where, data, (condition, root) => {
      fc.pre(JSON.stringify(condition).split("$regex").length - 1 <= conditionLimits.patterns);
      const parsed = whereSchema.parse(condition) as Where;
      expect(parsed).toEqual(condition);
      expect(holds(parsed, root)).toBe(naive(condition, root));
    }),
    { numRuns: 1000 },
  );
});

test("never throws for JSON, and reasons contain no data", () => {
  fc.assert(
    fc.property(where, fc.jsonValue(), (condition, root) => {
      const reason = compileWhere(condition, "where")(root);
      if (reason !== null)
        expect(reason).toMatch(
          /^where: (\$or|\$not|(a|b|a\.b|a\.0|a\.b\.length|b\.constructor|toString) \$[a-zA-Z]+)$/,
        );
    }),
  );
});
