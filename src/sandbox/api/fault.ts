import { z } from "zod";
import { type Plan, suggestedPlan } from "../world.ts";

interface FaultBody {
  readonly error: string | { readonly message: string };
  readonly cause?: unknown;
}

/**
 * An answer that is no success, in the shapes of messaging-service-api.md, "Errors". Its message is
 * the text in the body.
 */
export class ApiFault extends Error {
  override readonly name = "ApiFault";
  readonly status: number;
  readonly body: FaultBody;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: FaultBody, headers: Readonly<Record<string, string>> = {}) {
    super(typeof body.error === "string" ? body.error : body.error.message);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

export function invalid(problems: readonly Problem[]): ApiFault {
  return new ApiFault(400, { error: { message: JSON.stringify(problems) } });
}

export function refused(
  status: 400 | 401 | 404 | 405 | 409 | 413 | 500 | 502,
  error: string,
  headers?: Record<string, string>,
): ApiFault {
  return new ApiFault(status, { error, cause: null }, headers);
}

interface PlanCause {
  readonly plan: Plan;
  readonly resource: string;
  readonly reason?: "limit" | "feature";
  readonly limit?: number;
  readonly used?: number;
}

export function planRefused(status: 402 | 429, error: string, cause: PlanCause): ApiFault {
  const suggested = suggestedPlan[cause.plan];
  return new ApiFault(status, {
    error,
    cause: { type: "upgrade", reason: "limit", limit: 0, used: 0, ...cause, suggested },
  });
}

export const unexpectedText = "Ocurrió un error inesperado. Probá de nuevo en unos minutos.";

export function noSuchPath(): ApiFault {
  return refused(404, "No existe esa dirección en la API.");
}

/** `failed` gets what is not an answer of the service. */
export function answerTo(error: unknown, failed: (error: unknown) => void): ApiFault {
  if (error instanceof ApiFault) return error;
  const code = String((error as { code?: unknown } | null)?.code);
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return refused(413, "El cuerpo es demasiado grande.");
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE")
    return invalid([
      { path: [], message: "El cuerpo tiene que ser JSON, con Content-Type: application/json." },
    ]);
  if (code.startsWith("FST_ERR_CTP_"))
    return invalid([{ path: [], message: "El cuerpo no llegó entero." }]);
  failed(error);
  return refused(500, unexpectedText);
}

export function problemLines({ issues }: z.ZodError): string {
  return issues
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
    .join("; ");
}

const { localeError: inSpanish } = z.locales.es();
const problemText: z.core.$ZodErrorMap = (issue) =>
  issue.code === "invalid_type" && issue.input === undefined
    ? "Falta este campo."
    : inSpanish(issue);

/**
 * The value as the schema gives it. Throws the 400 that lists each problem with its `path`
 * (messaging-service-api.md, "Errors").
 */
export function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const { success, data, error } = schema.safeParse(value, { error: problemText });
  if (success) return data;
  throw invalid(error.issues.map(({ path, message }) => ({ path, message })));
}
