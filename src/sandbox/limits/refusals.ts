import { type ApiFault, tooManyPerMinute } from "../api/fault.ts";

/** The two caps on what happens in a minute (messaging-service-api.md, "Per-minute caps"). */
export type Cap = "requests" | "messages";

/** "If the message cap was exceeded, the error text speaks of messages per minute." */
export function capReached(cap: Cap, limit: number, retryAfterSeconds: number): ApiFault {
  const what = cap === "messages" ? "mensajes por minuto" : "pedidos por minuto";
  return tooManyPerMinute(
    `Superaste el límite de ${limit} ${what} de tu cuenta. Esperá ${retryAfterSeconds} segundos y volvé a intentar.`,
    limit,
    retryAfterSeconds,
  );
}
