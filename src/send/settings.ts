import { z } from "zod";
import { durationSchema } from "../event/units.ts";

/** Longest wait of one request; whoever asks waits as long with an open connection. */
export const longestMaxWait = 5 * 60_000;

export const maxWaitSchema = durationSchema.refine((ms) => ms <= longestMaxWait, "must be at most 5m");

export const sendSettingsSchema = z.strictObject({
  /** How long a send may wait for room under the caps, and between attempts that did nothing, before it is answered 429. */
  maxWait: maxWaitSchema.prefault("30s"),
  /** How long an idempotency key is remembered. References of runs are for ever. */
  keepKeys: durationSchema.refine((ms) => ms >= 3_600_000, "must be at least 1h").prefault("30d"),
});
