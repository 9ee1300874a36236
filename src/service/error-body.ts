import { z } from "zod";
import { type PlanCause, planCauseSchema } from "./schemas.ts";
import type { ValidationProblem } from "./service-error.ts";

/** What could be read of an error's body. The status says what happened; the body only adds detail. */
export interface ErrorBody {
  /** The service's own text, meant to be shown; null where there is none. */
  readonly text: string | null;
  /** The list of a validation error ("Errors", "Shape"); empty where there is none. */
  readonly problems: readonly ValidationProblem[];
  /** Undefined where the body has no such field: the document omits it from some 429s, and a proxy never sends it. */
  readonly cause: PlanCause | null | undefined;
  /** The body is `{error: <text>}`, as the document shows for all errors but validation. */
  readonly isDocumented: boolean;
}

const objectShape = z.record(z.string(), z.unknown());
const problemsShape = z.array(
  // "Which field": as text, or step by step, as many validators write it.
  z.looseObject({ path: z.union([z.string(), z.array(z.union([z.string(), z.number()]))]), message: z.string() }),
);

/** Reads `{error, cause}`, `{error: {message}}` and `{message}`, and whatever part of them is there. */
export function readErrorBody(json: unknown): ErrorBody {
  const body = objectShape.safeParse(json).data ?? {};
  const { error, cause } = body;
  const inner = objectShape.safeParse(error).data;
  const message = [error, inner?.["message"], body["message"]].find((text) => typeof text === "string") ?? null;
  const problems = inner === undefined || message === null ? null : readProblems(message);
  return {
    text: problems === null ? message : null,
    problems: problems ?? [],
    cause: cause === null ? null : planCauseSchema.safeParse(cause).data,
    isDocumented: typeof error === "string",
  };
}

/** Reads the list of problems that is JSON text inside `error.message`; null when it is another text. */
function readProblems(message: string): readonly ValidationProblem[] | null {
  let list: unknown;
  try {
    list = JSON.parse(message);
  } catch {
    return null;
  }
  const problems = problemsShape.safeParse(list);
  if (!problems.success) return null;
  return problems.data.map(({ path, message: why }) => ({ path: typeof path === "string" ? path : path.join("."), message: why }));
}
