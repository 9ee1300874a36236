import { z } from "zod";
import { type PlanCause, planCauseSchema } from "./schemas.ts";
import type { ValidationProblem } from "./service-error.ts";

/** The body of an error, as far as it is the document's ("Errors", "Shape"). */
export interface ErrorBody {
  readonly text: string;
  /** Undefined where the body has no such field: the document leaves it out of some 429s, and a proxy knows nothing of it. */
  readonly cause: PlanCause | null | undefined;
}

const shape = z.looseObject({ error: z.string(), cause: planCauseSchema.nullish() });

/** Reads `{error, cause}`; null when it is something else, or its cause is of a type not documented. */
export function readErrorBody(json: unknown): ErrorBody | null {
  const read = shape.safeParse(json);
  return read.success ? { text: read.data.error, cause: read.data.cause } : null;
}

const validationShape = z.looseObject({ error: z.looseObject({ message: z.string() }) });
const problemsShape = z.array(
  // "Which field": as text, or step by step, as the validators of this world write it.
  z.looseObject({ path: z.union([z.string(), z.array(z.union([z.string(), z.number()]))]), message: z.string() }),
);

/** Reads the list of problems that is JSON text inside `error.message`; null when there is none. */
export function readProblems(json: unknown): readonly ValidationProblem[] | null {
  const body = validationShape.safeParse(json);
  if (!body.success) return null;
  let list: unknown;
  try {
    list = JSON.parse(body.data.error.message);
  } catch {
    return null;
  }
  const problems = problemsShape.safeParse(list);
  if (!problems.success) return null;
  return problems.data.map(({ path, message }) => ({ path: typeof path === "string" ? path : path.join("."), message }));
}
