import { Cron } from "croner";
import { z } from "zod";
import { secretSchema } from "../event/secret.ts";
import { durationSchema } from "../event/units.ts";

/** Asked of the library that will read it, so that what is valid here works there. */
function isSchedule(text: string): boolean {
  if (text === "off") return true;
  try {
    return new Cron(text, { paused: true, utcOffset: 0 }).nextRun() !== null;
  } catch {
    return false;
  }
}

/** Accounts with a base URL and a key are asked about their messages; the others cannot be. */
export const reconcileSchema = z
  .strictObject({
    /** When the relay asks by itself, as cron writes it, in UTC; `off`: only when told to. */
    schedule: z
      .string("must be a cron pattern in quotes, or off")
      .refine(isSchedule, "is neither a cron pattern that ever comes (like * * * * *) nor off")
      .default("* * * * *"),
    /** How long after the send a message is asked about for the first time; later asks follow at multiples of it. */
    after: durationSchema.refine((ms) => ms >= 1000, "must be at least 1s").prefault("60s"),
    giveUpAfter: durationSchema.prefault("72h"),
    /** The last status worth asking for. Where people switch read receipts off, `delivered` is the last word. */
    until: z.enum(["read", "delivered"]).default("read"),
  })
  .refine(({ after, giveUpAfter }) => giveUpAfter > after, { path: ["giveUpAfter"], message: "must be longer than after" });
export type ReconcileSettings = z.infer<typeof reconcileSchema>;

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol);
}

/** When missing webhooks are an alarm. */
export const silenceSchema = z.strictObject({
  /** How long no event may come after messages were registered; also how far back is looked. */
  after: durationSchema.refine((ms) => ms >= 60_000 && ms <= 86_400_000, "must be from 1m to 24h").prefault("15m"),
  /** Where alarms are posted, as JSON. A secret, because such URLs often let in whoever knows them. */
  alertUrl: secretSchema.refine((secret) => isHttpUrl(secret.reveal()), "is not an http or https URL").optional(),
});
