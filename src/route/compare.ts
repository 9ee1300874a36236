import { compilePattern } from "./pattern.ts";
import type { Comparison } from "./where-settings.ts";

/** What each operator is given in the settings. */
export type Operands = { readonly [O in keyof Comparison]-?: Exclude<Comparison[O], undefined> };
type Operators = { readonly [O in keyof Operands]: (operand: Operands[O]) => ValueTest };
export type Operator = keyof Operands;
/** Judges the value at a path; `undefined` means that nothing is there. */
export type ValueTest = (value: unknown) => boolean;

/** Compiles one operator with its operand. How values, arrays and missing paths compare: docs/routing.md. */
export function compileComparison<O extends Operator>(operator: O, operand: Operands[O]): ValueTest {
  return operators[operator](operand);
}

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

/** Holds for a value that passes, or an array with an element that does. */
function some(test: ValueTest): ValueTest {
  return (value) => (Array.isArray(value) ? value.some(test) : test(value));
}

function text(test: (value: string) => boolean): ValueTest {
  return some((value) => typeof value === "string" && test(value));
}

/** Numbers compare with numbers and texts with texts; "10" and 9 do not, since JavaScript's guess would surprise. */
function ordered(operand: string | number, holds: (value: string | number, bound: string | number) => boolean): ValueTest {
  return some((value) => typeof value === typeof operand && holds(value as string | number, operand));
}
