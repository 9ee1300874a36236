import { z } from "zod";
import { durationSchema } from "../event/units.ts";

/** Truncated events: which messages are read through the API on their behalf, and how long. */
export const hydrateSchema = z.strictObject({
  /** Wait before a sweep, which gathers a burst into one, and lets a late registration come. */
  delay: durationSchema.refine((ms) => ms <= 3_600_000, "must be at most 1h").prefault("2s"),
  /** A message registered longer than this before the event is not asked about. */
  reach: durationSchema.prefault("72h"),
  /** A delivered or failed message that has not changed for so long is taken to be at rest. */
  settledAfter: durationSchema.prefault("6h"),
  /** After this an event's hydration ends with what was found; the rest is left to reconciliation. */
  giveUpAfter: durationSchema.prefault("6h"),
  /** Most calls of an account within 24 hours: what the month's quota of API calls can bear. */
  callsPerDay: z.number().int().min(1).default(10_000),
});
export type HydrateSettings = z.infer<typeof hydrateSchema>;
