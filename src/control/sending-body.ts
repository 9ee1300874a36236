import { z } from "zod";
import { maxIdLength } from "../event/ids.ts";
import { metadataSchema } from "../event/metadata.ts";
import { durationSchema } from "../event/units.ts";

/** Names of the user's own, which are compared as they stand. */
const ownName = z
  .string()
  .min(1)
  .max(maxIdLength)
  .refine((text) => text.isWellFormed(), "is not well-formed text");

/** The rules are the service's (messaging-service-api.md, "POST /messages"): what it would refuse costs no call. */
const phone = z.string().min(6).max(32).startsWith("+", "is not in international format (+ first)");
const texts = z.record(z.string(), z.string());

export const messageBody = z
  .strictObject({
    account: z.string().min(1).optional(),
    to: phone,
    text: z.string().min(1).max(4096).optional(),
    template: z.strictObject({ id: z.string().min(1), variables: texts.optional() }).optional(),
    phoneNumberId: z.string().min(1).optional(),
    reference: ownName.optional(),
    metadata: metadataSchema.optional(),
  })
  .refine(({ text, template }) => (text === undefined) !== (template === undefined), "needs exactly one of text and template")
  .meta({ oneOf: [{ required: ["text"] }, { required: ["template"] }] });

export const runBody = z.strictObject({
  account: z.string().min(1).optional(),
  reference: ownName.describe("The business record: one run for each, for ever."),
  // The document shows no format for it: the service judges.
  phone: z.string().min(1).max(maxIdLength),
  name: z.string().min(1).optional(),
  data: texts.optional(),
  metadata: metadataSchema.optional(),
});

export const sendQuery = z.strictObject({
  resend: z.coerce.number().int().min(1).optional().describe("The number that `outcome_unknown` told: sends in spite of it."),
  maxWait: durationSchema
    .refine((ms) => ms <= 5 * 60_000, "must be at most 5m")
    .optional()
    .describe("Longest wait for room under the account's caps, at most `5m`."),
});

export const sendHeaders = z.object({
  "idempotency-key": z
    .string()
    .min(1)
    .max(256)
    .regex(/^[\x20-\x7e]+$/, "is not plain ASCII text")
    .optional()
    .describe("Under one key, one message is sent."),
});
