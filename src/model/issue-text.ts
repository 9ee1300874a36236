import type { z } from "zod";
import { nearest } from "./nearest.ts";

type Kinds = Readonly<Record<string, string>>;

export const jsonKinds: Kinds = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

/**
 * Says what is wrong with a value, in place of zod's message. Never quotes the value, which may be
 * a secret.
 */
export function issueText(issue: z.core.$ZodRawIssue, kinds: Kinds = jsonKinds): string {
  if (issue.input === undefined) return "is missing";
  switch (issue.code) {
    case "invalid_type": {
      const expected = `must be ${kinds[issue.expected] ?? issue.expected}`;
      // What a text such as "abc" becomes as a number.
      return Number.isNaN(issue.input)
        ? expected
        : `${expected}, not ${kindOf(issue.input, kinds)}`;
    }
    case "invalid_union":
      return `must be ${[...expectedKinds(issue, kinds)].join(" or ")}`;
    case "too_small":
      return boundText(issue.origin, "at least", issue.minimum, issue.inclusive === false);
    case "too_big":
      // The limit of whole numbers would be masked like a phone number.
      if (issue.maximum === Number.MAX_SAFE_INTEGER) return "is too large";
      return boundText(issue.origin, "at most", issue.maximum, issue.inclusive === false);
    case "invalid_value": {
      const candidate =
        typeof issue.input === "string"
          ? nearest(issue.input, issue.values.map(String))
          : undefined;
      const choice = `must be ${issue.values.length > 1 ? "one of " : ""}${issue.values.map(String).join(", ")}`;
      return candidate === undefined ? choice : `${choice} (did you mean ${candidate}?)`;
    }
    case "invalid_format":
      if (issue.format === "datetime")
        return "must be a time with its zone, such as YYYY-MM-DDThh:mm:ssZ";
      return issue.format === "url" ? "is not a URL" : "does not have the right form";
    default:
      return "is not valid";
  }
}

function boundText(
  origin: string,
  bound: string,
  limit: number | bigint,
  exclusive: boolean,
): string {
  if (exclusive) return `must be ${bound === "at least" ? "more than" : "less than"} ${limit}`;
  if (origin === "string")
    return limit === 1 && bound === "at least"
      ? "must not be empty"
      : `must have ${bound} ${limit} characters`;
  if (origin === "array")
    return limit === 1 ? `must have ${bound} one entry` : `must have ${bound} ${limit} entries`;
  return `must be ${bound} ${limit}`;
}

function kindOf(value: unknown, kinds: Kinds): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return kinds["array"] as string;
  if (typeof value === "number" && !Number.isInteger(value))
    return Number.isFinite(value) ? "a fraction" : "infinity";
  return kinds[typeof value] ?? "this";
}

function expectedKinds(
  issue: { readonly errors: readonly (readonly z.core.$ZodIssue[])[] },
  kinds: Kinds,
): Set<string> {
  const found = new Set<string>();
  for (const inner of issue.errors.flat()) {
    if (inner.code === "invalid_union")
      for (const kind of expectedKinds(inner, kinds)) found.add(kind);
    else if (inner.code === "invalid_type") found.add(kinds[inner.expected] ?? inner.expected);
  }
  return found;
}
