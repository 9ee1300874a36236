import { readPath } from "../event/read-path.ts";
import { compileComparison, type Operands, type Operator, type ValueTest } from "./compare.ts";
import { type Comparison, type Where, whereOperators } from "./where-settings.ts";

/** Null when the condition holds for `root`, else the reason: what failed first. */
export type Condition = (root: unknown) => string | null;

/**
 * Compiles a condition of the settings. Its paths are judged in the order given, then `$or`, `$and` and `$not`.
 * The reason is `<label>: <path> <operator>`, `<label>: $or` or `<label>: $not`; a part of `$and` gives its own.
 */
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
    const test = compileComparison(operator, operand as Operands[O]);
    tests.push({ test, reason: `${label}: ${path} ${operator}` });
  };
  // The schema lets nothing through but scalars and comparisons.
  if (typeof wanted !== "object" || wanted === null) add("$eq", wanted as string | number | boolean | null);
  else for (const operator of whereOperators) add(operator, (wanted as Comparison)[operator]);
  return (root) => {
    const value = readPath(root, path);
    for (const { test, reason } of tests) if (!test(value)) return reason;
    return null;
  };
}
