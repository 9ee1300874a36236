import { ApiFault, invalid, refused } from "./fault.ts";

type Answer = Pick<ApiFault, "status" | "body" | "headers">;

/** The text of a 500, which the document does not show. */
export const unexpectedText = "Ocurrió un error inesperado. Probá de nuevo en unos minutos.";

export function noSuchPath(): ApiFault {
  return refused(404, "No existe esa dirección en la API.");
}

/** What the caller sees of anything thrown; `failed` gets what is not an answer of the service. */
export function answerTo(error: unknown, failed: (error: unknown) => void): Answer {
  if (error instanceof ApiFault) return error;
  const code = (error as { code?: unknown } | null)?.code;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return new ApiFault(413, { error: "El cuerpo es demasiado grande.", cause: null });
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return invalid([{ path: [], message: "El cuerpo tiene que ser JSON, con Content-Type: application/json." }]);
  }
  // The body was cut off, or its length is not the one announced.
  if (typeof code === "string" && code.startsWith("FST_ERR_CTP_")) return invalid([{ path: [], message: "El cuerpo no llegó entero." }]);
  failed(error);
  return refused(500, unexpectedText);
}
