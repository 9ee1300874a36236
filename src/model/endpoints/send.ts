import { z } from "zod";
import {
  sentMessageSchema,
  startedRunSchema,
  trackEndSchema,
  trackedLineSchema,
  trackedSchema,
} from "../answers/subjects.ts";
import { maxIdLength } from "../ids.ts";
import { givenTime, idText, referenceText } from "../queries.ts";
import { metadataSchema } from "../tracking.ts";
import { durationSchema } from "../units.ts";

/**
 * The service's rules (messaging-service-api.md, "POST /messages"), so that a request it would
 * refuse costs no call.
 */
const phone = z.string().min(6).max(32).startsWith("+", "is not in international format (+ first)");
/** A lone surrogate has no UTF-8 form: the customer would get U+FFFD. */
const text = z.string().refine((given) => given.isWellFormed(), "is not well-formed text");
const texts = z.record(z.string(), text);
const accountOf = (what: string) =>
  z.string().min(1).optional().describe(`${what}. Required when the settings have several.`);
const reference = referenceText.optional().describe("Your own reference, such as an order number.");
const metadata = metadataSchema
  .optional()
  .describe("Your own data, for routes and `payload: enriched`.");

export const messageBody = z
  .strictObject({
    account: accountOf("The account that sends it"),
    to: phone.describe("Phone number with country code, starting with `+`."),
    text: text
      .min(1)
      .max(4096)
      .optional()
      .describe(
        "The text. The service accepts it only within 24 hours of the customer's last message.",
      ),
    template: z
      .strictObject({
        id: z.string().min(1).describe("The template's id."),
        variables: texts.optional().describe("Values of the template's variables."),
      })
      .optional()
      .describe("An approved template, instead of `text`."),
    phoneNumberId: z
      .string()
      .min(1)
      .optional()
      .describe("The sending number, if several are connected."),
    reference,
    metadata,
  })
  .refine(
    ({ text, template }) => (text === undefined) !== (template === undefined),
    "needs exactly one of text and template",
  )
  .meta({ oneOf: [{ required: ["text"] }, { required: ["template"] }] });

export const runBody = z.strictObject({
  account: accountOf("The account that starts it"),
  reference: idText.describe("The business record. It starts one run, once and for all."),
  // The service documents no format.
  phone: z
    .string()
    .min(1)
    .max(maxIdLength)
    .describe("The customer's phone number, in the service's format."),
  name: text.min(1).optional().describe("The customer's name."),
  data: texts.optional().describe("Values for the automation."),
  metadata,
});

const sendQuery = z.strictObject({
  resend: z.coerce
    .number<number>()
    .int()
    .min(1)
    .optional()
    .describe(
      "`details.resend` of the error `outcome_unknown`: sends again although the first attempt may have succeeded.",
    ),
  maxWait: durationSchema
    .refine((ms) => ms <= 5 * 60_000, "must be at most 5m")
    .optional()
    .describe(
      "Longest wait for a slot under the account's caps, at most `5m`. Default: `send.maxWait`.",
    ),
});

const sendHeaders = z.object({
  "idempotency-key": z
    .string()
    .min(1)
    .max(256)
    .regex(/^[\x20-\x7e]+$/, "is not plain ASCII text")
    .optional()
    .describe("The same key sends once."),
});

const errors = [
  "conflict",
  "idempotency_conflict",
  "outcome_unknown",
  "service_refused",
  "service_rate_limited",
  "service_quota_used_up",
  "service_unreachable",
  "service_key_refused",
  "shutting_down",
] as const;

export const registration = z.strictObject({
  account: accountOf("Its account"),
  wamid: idText.describe("Its wamid."),
  id: idText.optional().describe("The service's message id."),
  reference,
  conversationId: idText.optional().describe("The service's conversation id."),
  metadata,
  sentAt: givenTime.optional().describe("When it was sent. Default: the time of registration."),
});
export type Registration = z.infer<typeof registration>;

export const trackBody = z.union([
  registration.transform((one) => [one]),
  z.array(registration).min(1).max(1000),
]);

const ndjson = "application/x-ndjson";

/** What sends, and what registers sent messages: docs/concepts/sending.md. */
export const sending = {
  sendMessage: {
    scope: "send",
    accounts: "narrowed",
    summary: "Sends a message, once per Idempotency-Key",
    description:
      "The relay registers what it sent. With every error but `outcome_unknown`, nothing was sent.",
    query: sendQuery,
    headers: sendHeaders,
    body: messageBody,
    answers: {
      201: {
        text: "Sent and registered. A repeated request gets the first answer, with the header `idempotent-replayed: true`.",
        schema: sentMessageSchema,
        headers: { "Idempotent-Replayed": "`true` on a repeated request." },
      },
      202: { text: "Sent, but not stored: `stored` is false.", schema: sentMessageSchema },
    },
    errors,
  },
  startRun: {
    scope: "send",
    accounts: "narrowed",
    summary: "Starts a run of an automation, once per reference",
    params: z.strictObject({ id: z.string().describe("The automation's id.") }),
    query: sendQuery,
    body: runBody,
    answers: {
      200: { text: "Started before: `created` is false.", schema: startedRunSchema },
      201: { text: "Started now.", schema: startedRunSchema },
      202: { text: "Started, but not stored: `stored` is false.", schema: startedRunSchema },
    },
    errors,
  },
  trackMessages: {
    scope: "track",
    accounts: "narrowed",
    summary: "Registers sent messages, so that the relay tracks them",
    description: `Registering again is safe: new facts are added, and equal ones change nothing. The earliest \`sentAt\` counts.

| body | the relay |
|---|---|
| JSON: one registration, or a list of up to 1,000 | registers all or none. 409 \`conflict\` when one contradicts what is stored: \`details\` has \`stored\` and \`given\` by field, and \`index\` in a list |
| NDJSON (\`application/x-ndjson\`): one registration a line | registers each line separately, and answers a line for each in order, then a line with the sums |

| NDJSON | limit |
|---|---|
| the body | 8 MiB, above it 413 \`too_large\`. Send more lines in several requests |
| a line | 64 KiB, 2,000 values, 32 levels |
| \`metadata\` of a message | 64 KiB as JSON, 1,000 keys and entries, 16 levels |
| a failure later on | the last line has \`error\`, \`code\` and \`stoppedAt\`: continue at that line. Do so after a cut answer too |`,
    body: trackBody,
    lines: "One registration per line, at most 8 MiB.",
    answers: {
      200: {
        text: "The number of messages registered now and before; for NDJSON, the result of each line.",
        schema: trackedSchema,
        types: ["application/json", ndjson],
        line: z.union([trackedLineSchema, trackEndSchema]),
      },
    },
    errors: ["conflict", "shutting_down"],
  },
} as const;
