import { z } from "zod";
import { durationSchema } from "../model/units.ts";

/** Truncated events: which messages the relay reads through the API for them, and for how long. */
export const hydrateSchema = z.strictObject({
  delay: durationSchema
    .refine((ms) => ms <= 3_600_000, "must be at most 1h")
    .prefault("2s")
    .describe(
      "Wait before a pass, at most 1h. It combines a burst into one pass and allows for late registrations.",
    ),
  reach: durationSchema
    .prefault("72h")
    .describe("Messages registered longer than this before the event are not read."),
  settledAfter: durationSchema
    .prefault("6h")
    .describe("A delivered or failed message without changes for this long counts as final."),
  giveUpAfter: durationSchema
    .prefault("6h")
    .describe(
      "After this, an event's hydration ends with what was found; reconciliation handles the rest.",
    ),
  callsPerDay: z
    .number()
    .int()
    .min(1)
    .default(10_000)
    .describe("Most calls per account within 24 hours, to spare the monthly quota of API calls."),
});
export type HydrateSettings = z.infer<typeof hydrateSchema>;
