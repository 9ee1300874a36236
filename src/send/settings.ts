import { z } from "zod";
import { durationSchema } from "../model/units.ts";

/** The client keeps its connection open that long. */
const longestMaxWait = 5 * 60_000;

const maxWaitSchema = durationSchema.refine((ms) => ms <= longestMaxWait, "must be at most 5m");

export const sendSettingsSchema = z.strictObject({
  maxWait: maxWaitSchema
    .prefault("30s")
    .describe(
      "Longest wait of a send for room under the caps, and between attempts that did nothing, at most 5m. After that it gets 429.",
    ),
  keepKeys: durationSchema
    .refine((ms) => ms >= 3_600_000, "must be at least 1h")
    .prefault("30d")
    .describe(
      "How long an idempotency key is kept, at least 1h. References of runs are permanent.",
    ),
  temporaryRejections: z
    .array(z.string().min(3).max(200))
    .max(50)
    .default([])
    .describe(
      "Parts of the provider's rejection text (502) that mark a temporary reason. Such a message is sent up to four times in all. At most 50 texts of 3 to 200 characters.",
    ),
});

export function isTemporaryRejection(text: string, parts: readonly string[]): boolean {
  const lower = text.toLowerCase();
  return parts.some((part) => lower.includes(part.toLowerCase()));
}
