import { z } from "zod";
import { scheduleSchema } from "../model/schedule.ts";
import { secretSchema } from "../model/secret.ts";
import { durationSchema } from "../model/units.ts";

/** Only accounts with a base URL and a key are polled. */
export const reconcileSchema = z
  .strictObject({
    /** Schedule of the passes, as a cron pattern in UTC; `off`: only on request. */
    schedule: scheduleSchema.default("* * * * *"),
    /** Time from the send to the first poll; later polls follow at multiples of it. */
    after: durationSchema.refine((ms) => ms >= 1000, "must be at least 1s").prefault("60s"),
    giveUpAfter: durationSchema.prefault("72h"),
    /** The last status worth polling for. Without read receipts, `delivered` is final. */
    until: z.enum(["read", "delivered"]).default("read"),
  })
  .refine(({ after, giveUpAfter }) => giveUpAfter > after, { path: ["giveUpAfter"], message: "must be longer than after" });
export type ReconcileSettings = z.infer<typeof reconcileSchema>;

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol);
}

/** When missing webhooks raise an alarm. */
export const silenceSchema = z.strictObject({
  /** Longest time without an event after messages were registered; also the length of the window. */
  after: durationSchema.refine((ms) => ms >= 60_000 && ms <= 86_400_000, "must be from 1m to 24h").prefault("15m"),
  /** Alarms are posted here as JSON. A secret, because such URLs often grant access. */
  alertUrl: secretSchema.refine((secret) => isHttpUrl(secret.reveal()), "is not an http or https URL").optional(),
});
