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
