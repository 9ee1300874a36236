import { reaches } from "../statuses.ts";
import type { MessageRecord } from "../world/records.ts";

/**
 * What a run that sent `message` does now: goes on once it left, fails if it failed, else waits.
 * A message that has left may be bound to fail all the same, as one to a number without an account, and a run whose
 * last message that is must not end as completed: so a failure that is to come is waited for. One that
 * stays pending holds up nothing. All of it is the sandbox's choice.
 */
export function deliveryOf({ status, future }: MessageRecord): "left" | "failed" | "open" {
  if (status === "failed") return "failed";
  if (status !== "pending" && status !== "sent") return "left";
  const hasLeft = reaches(status, "sent");
  return future.some((step) => !hasLeft || step.status === "failed") ? "open" : "left";
}

/** The text with which a run ends whose message failed. */
export function failureText({ errorCode }: MessageRecord): string {
  if (String(errorCode) === "131026") return "El teléfono no tiene una cuenta en la red (código 131026).";
  return `El mensaje no se pudo entregar${errorCode === undefined ? "" : ` (código ${errorCode})`}.`;
}
