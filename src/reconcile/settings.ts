import { z } from "zod";
import { scheduleSchema } from "../model/schedule.ts";
import { secretSchema } from "../model/secret.ts";
import { durationSchema } from "../model/units.ts";
import { isHttpUrl, isUnixSocket, unixSocketFault } from "../net/addresses.ts";

/** Only accounts with a base URL and a key are polled. */
export const reconcileSchema = z
  .strictObject({
    schedule: scheduleSchema
      .default("* * * * *")
      .describe("Schedule of the passes, as a cron pattern in UTC; off: only on request."),
    after: durationSchema
      .refine((ms) => ms >= 1000, "must be at least 1s")
      .prefault("60s")
      .describe(
        "Time from the send to the first poll, at least 1s. Later polls follow at multiples of it.",
      ),
    giveUpAfter: durationSchema
      .prefault("72h")
      .describe("Age from which a message is no longer polled. Longer than after."),
    until: z
      .enum(["read", "delivered"])
      .default("read")
      .describe("The last status worth polling for. Without read receipts, delivered is final."),
  })
  .refine(({ after, giveUpAfter }) => giveUpAfter > after, {
    path: ["giveUpAfter"],
    message: "must be longer than after",
  });
export type ReconcileSettings = z.infer<typeof reconcileSchema>;

/** When missing webhooks raise an alarm. */
export const silenceSchema = z.strictObject({
  after: durationSchema
    .refine((ms) => ms >= 60_000 && ms <= 86_400_000, "must be from 1m to 24h")
    .prefault("15m")
    .describe(
      "Longest time without an event after messages were registered, 1m to 24h. Also the length of the window.",
    ),
  alertUrl: secretSchema
    .refine((secret) => isHttpUrl(secret.reveal()), "is not an http or https URL")
    .refine((secret) => !isUnixSocket(secret.reveal()), unixSocketFault)
    .optional()
    .describe(
      "Alarms are posted here as JSON, once as they begin and once as they end. A secret, because such URLs often grant access.",
    ),
});
