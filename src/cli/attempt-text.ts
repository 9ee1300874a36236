import { type AttemptError, isOutage } from "../event/delivery.ts";
import type { PrivateView } from "./private-view.ts";

/** What came of an attempt, in a few words: `answered 503`, `taken`, `no answer: timeout`, `not taken: full`. */
export function attemptText(status: number | null, error: string | null): string {
  if (status !== null) return `answered ${status}`;
  if (error === null) return "taken";
  return error === "refused" || isOutage(error as AttemptError) ? `not taken: ${error}` : `no answer: ${error}`;
}

interface Answered {
  readonly status: number | null;
  readonly error: string | null;
  readonly response: string | null;
}

/**
 * What was said to an attempt; empty when nothing was. What took it and is no server is a stream: its answer is the id it gave the
 * entry (a time in digits and a number), which masking would take for somebody's phone.
 */
export function responseText({ status, error, response }: Answered, view: PrivateView): string {
  if (response === null) return "";
  return status === null && error === null ? response : view.text(response);
}
