import type { z } from "zod";
import { type Plan, type PlanLimits, plans, suggestedPlan } from "../world/records.ts";

/** An answer that is no success, in the shapes of messaging-service-api.md, "Errors". */
export class ApiFault extends Error {
  override readonly name = "ApiFault";
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: Readonly<Record<string, unknown>>, headers: Readonly<Record<string, string>> = {}) {
    super(`${status} ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

export interface Problem {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

export function invalid(problems: readonly Problem[]): ApiFault {
  return new ApiFault(400, { error: { message: JSON.stringify(problems) } });
}

export function refused(status: 400 | 401 | 404 | 409 | 500 | 502, error: string): ApiFault {
  return new ApiFault(status, { error, cause: null });
}

export function tooManyPerMinute(error: string, limit: number, retryAfterSeconds: number): ApiFault {
  return new ApiFault(429, { error }, { "retry-after": String(retryAfterSeconds), "x-ratelimit-limit": String(limit) });
}

export function blockedAddress(error: string): ApiFault {
  return new ApiFault(429, { error });
}

interface LimitCause {
  readonly plan: Plan;
  readonly resource: string;
  readonly limit: number;
  readonly used: number;
}

/** 402 for a maximum of the plan, 429 for a monthly quota. */
export function limitReached(status: 402 | 429, error: string, cause: LimitCause): ApiFault {
  return new ApiFault(status, { error, cause: { type: "upgrade", reason: "limit", ...cause, suggested: suggestedPlan[cause.plan] } });
}

/** The plan lacks the feature. The word for `reason` is the sandbox's choice. */
export function notInPlan(error: string, plan: Plan, resource: string): ApiFault {
  return new ApiFault(402, {
    error,
    cause: { type: "upgrade", reason: "feature", resource, plan, limit: 0, used: 0, suggested: suggestedPlan[plan] },
  });
}

export function limitsOf(plan: Plan): PlanLimits {
  return plans[plan];
}

type Answer = Pick<ApiFault, "status" | "body" | "headers">;

export const unexpectedText = "Ocurrió un error inesperado. Probá de nuevo en unos minutos.";

export function noSuchPath(): ApiFault {
  return refused(404, "No existe esa dirección en la API.");
}

/** `failed` gets what is not an answer of the service. */
export function answerTo(error: unknown, failed: (error: unknown) => void): Answer {
  if (error instanceof ApiFault) return error;
  const code = (error as { code?: unknown } | null)?.code;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new ApiFault(413, { error: "El cuerpo es demasiado grande.", cause: null });
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return invalid([{ path: [], message: "El cuerpo tiene que ser JSON, con Content-Type: application/json." }]);
  }
  if (typeof code === "string" && code.startsWith("FST_ERR_CTP_")) return invalid([{ path: [], message: "El cuerpo no llegó entero." }]);
  failed(error);
  return refused(500, unexpectedText);
}

/** The value as the schema gives it. Throws the 400 that lists each problem with its `path` (messaging-service-api.md, "Errors"). */
export function checked<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value, { error: problemText });
  if (result.success) return result.data;
  throw invalid(result.error.issues.flatMap(problemsOf));
}

function problemsOf(issue: z.core.$ZodIssue): Problem[] {
  const path = issue.path.map((step) => (typeof step === "number" ? step : String(step)));
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => ({ path: [...path, key], message: issue.message }));
  return [{ path, message: issue.message }];
}

const kinds: Readonly<Record<string, string>> = {
  string: "un texto",
  number: "un número",
  int: "un número entero",
  boolean: "verdadero o falso",
  array: "una lista",
  object: "un objeto",
  record: "un objeto",
  null: "null",
};

const formats: Readonly<Record<string, string>> = {
  uuid: "un UUID",
  guid: "un UUID",
  url: "una URL",
  datetime: "una fecha y hora en formato ISO 8601",
  e164: "un teléfono en formato internacional, por ejemplo +5491122334455",
};

function problemText(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case "invalid_type":
      if (issue.input === undefined) return "Falta este campo.";
      return `Tiene que ser ${kinds[issue.expected] ?? issue.expected}.`;
    case "invalid_value":
      return `Tiene que ser ${issue.values.map((value) => JSON.stringify(value)).join(" o ")}.`;
    case "too_small":
      return `Tiene que ${sized(issue.origin, issue.inclusive === false ? "más de" : "por lo menos", issue.minimum)}.`;
    case "too_big":
      return `Tiene que ${sized(issue.origin, issue.inclusive === false ? "menos de" : "como máximo", issue.maximum)}.`;
    case "invalid_format":
      return formats[issue.format] === undefined ? "El formato no es válido." : `Tiene que ser ${formats[issue.format]}.`;
    case "unrecognized_keys":
      return "Este campo no existe.";
    default:
      return "El valor no es válido.";
  }
}

function sized(origin: string, bound: string, size: number | bigint): string {
  if (origin === "string") return `tener ${bound} ${size} caracteres`;
  if (origin === "array") return `tener ${bound} ${size} elementos`;
  return `ser ${bound} ${size}`;
}
