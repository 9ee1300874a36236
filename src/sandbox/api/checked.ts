import type { z } from "zod";
import { invalid, type Problem } from "./fault.ts";

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
