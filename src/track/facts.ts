import type { Tracking } from "../model/tracking.ts";

/** The registered facts of a message or run, as routes match them. */
export type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

/** The facts of an unregistered message or run. */
export function untrackedFacts(subject: Facts["subject"]): Facts {
  return { subject, tracked: false, id: null, reference: null, metadata: null };
}

/** The tracking of an event without a message or run. */
export const nothingTracked: Tracking = {
  ...untrackedFacts("none"),
  previousStatus: null,
  status: null,
  errorCode: null,
  transition: null,
};

/** `registered`: null when it was never registered. `metadata` is a JSON object. */
export function factsOf(
  subject: "message" | "run",
  registered: { readonly id: string | null; readonly reference: string | null; readonly metadata: string | null } | null,
): Facts {
  if (registered === null) return untrackedFacts(subject);
  const { id, reference, metadata } = registered;
  return { subject, tracked: true, id, reference, metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>) };
}
