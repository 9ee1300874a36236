import type { z } from "zod";
import { invalid, type Problem } from "./fault.ts";
import { problemText } from "./problem-text.ts";

/**
 * The value as the schema gives it, or the 400 whose `error.message` lists what is wrong, each problem with its `path`
 * (messaging-service-api.md, "Errors", "Shape"). Texts are Spanish; those that a schema brings itself (`z.string("…")`,
 * `.refine(…, "…")`) are used as they are.
 */
export function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value, { error: problemText });
  if (result.success) return result.data;
  throw invalid(result.error.issues.flatMap(problemsOf));
}

function problemsOf(issue: z.core.$ZodIssue): Problem[] {
  const path = issue.path.map((step) => (typeof step === "number" ? step : String(step)));
  // An unknown field is named in the path, as every other field is.
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => ({ path: [...path, key], message: issue.message }));
  return [{ path, message: issue.message }];
}
