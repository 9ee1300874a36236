import { readPath } from "../model/json.ts";
import { compilePattern } from "./pattern.ts";
import { type Comparison, type Where, whereOperators } from "./settings.ts";

/** Null when the condition holds, else the first part that failed. */
export type Condition = (root: unknown) => string | null;

/** The reason is `<label>: <path> <operator>`, `<label>: $or` or `<label>: $not`. A part of `$and` has its own. */
export function compileWhere(where: Where, label: string): Condition {
  const conditions: Condition[] = [];
  for (const path of Object.keys(where)) {
    if (path !== "$or" && path !== "$and" && path !== "$not") conditions.push(compilePath(path, where[path], label));
  }
  if (where.$or !== undefined) {
    const parts = where.$or.map((part) => compileWhere(part, label));
    const reason = `${label}: $or`;
    conditions.push((root) => (parts.some((part) => part(root) === null) ? null : reason));
  }
  if (where.$and !== undefined) conditions.push(...where.$and.map((part) => compileWhere(part, label)));
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
  const tests: { test: ValueTest; reason: string }[] = [];
  const add = <O extends Operator>(operator: O, operand: Comparison[O]) => {
    if (operand === undefined) return;
    tests.push({ test: operators[operator](operand as Operands[O]), reason: `${label}: ${path} ${operator}` });
  };
  // The schema allows scalars and comparisons only.
  if (typeof wanted !== "object" || wanted === null) add("$eq", wanted as string | number | boolean | null);
  else for (const operator of whereOperators) add(operator, (wanted as Comparison)[operator]);
  return (root) => {
    const value = readPath(root, path);
    for (const { test, reason } of tests) if (!test(value)) return reason;
    return null;
  };
}

type Operands = { readonly [O in keyof Comparison]-?: Exclude<Comparison[O], undefined> };
type Operators = { readonly [O in keyof Operands]: (operand: Operands[O]) => ValueTest };
type Operator = keyof Operands;
/** `undefined`: the path is missing. */
type ValueTest = (value: unknown) => boolean;

/** docs/concepts/routing.md defines how values, arrays and missing paths compare. */
const operators: Operators = {
  $eq: (operand) => some((value) => value === operand),
  $ne: (operand) => {
    const equal = some((value) => value === operand);
    return (value) => !equal(value);
  },
  $in: (operand) => {
    const accepted = new Set<unknown>(operand);
    return some((value) => accepted.has(value));
  },
  $gt: (operand) => ordered(operand, (value, bound) => value > bound),
  $gte: (operand) => ordered(operand, (value, bound) => value >= bound),
  $lt: (operand) => ordered(operand, (value, bound) => value < bound),
  $lte: (operand) => ordered(operand, (value, bound) => value <= bound),
  $exists: (operand) => (value) => (value !== undefined) === operand,
  $startsWith: (operand) => text((value) => value.startsWith(operand)),
  $endsWith: (operand) => text((value) => value.endsWith(operand)),
  $regex: (operand) => compilePattern(operand).test,
};

function some(test: ValueTest): ValueTest {
  return (value) => (Array.isArray(value) ? value.some(test) : test(value));
}

function text(test: (value: string) => boolean): ValueTest {
  return some((value) => typeof value === "string" && test(value));
}

/** Never converts: JavaScript would find "10" greater than 9. */
function ordered(operand: string | number, holds: (value: string | number, bound: string | number) => boolean): ValueTest {
  return some((value) => typeof value === typeof operand && holds(value as string | number, operand));
}
