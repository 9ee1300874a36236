import { type AttemptError, isOutage } from "../event/delivery.ts";

/** What came of an attempt, in a few words: `answered 503`, `taken`, `no answer: timeout`, `not taken: full`. */
export function attemptText(status: number | null, error: string | null): string {
  if (status !== null) return `answered ${status}`;
  if (error === null) return "taken";
  return error === "refused" || isOutage(error as AttemptError) ? `not taken: ${error}` : `no answer: ${error}`;
}
