import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { sentMessageSchema, startedRunSchema } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import { maxIdLength } from "../model/ids.ts";
import { metadataSchema } from "../model/message.ts";
import type { SendResult } from "../model/send.ts";
import { durationSchema } from "../model/units.ts";
import { type Allow, addEndpoint, disconnectSignal, idText } from "./endpoint.ts";

/** Methods throw the `RelayError`s of docs/concepts/sending.md. */
export interface SendingPort {
  sendMessage(order: MessageRequest, caller: SendCaller): Promise<SendResult>;
  startRun(order: RunRequest, caller: SendCaller): Promise<SendResult>;
}

interface SendRequest {
  /** Number of attempts with unknown outcome despite which it is sent again; 0: none. */
  readonly resend: number;
}

/** `key` null: the relay makes one. */
type MessageRequest = z.infer<typeof messageBody> & SendRequest & { readonly key: string | null };
type RunRequest = z.infer<typeof runBody> & SendRequest & { readonly automation: string };

interface SendCaller {
  /** Aborted when the client disconnects. */
  readonly gone: AbortSignal;
  /** In ms. Default: the setting. */
  readonly maxWait?: number | undefined;
  /** The client's W3C trace context. */
  readonly traceparent?: unknown;
}

/** The service's rules (messaging-service-api.md, "POST /messages"), so that a request it would refuse costs no call. */
const phone = z.string().min(6).max(32).startsWith("+", "is not in international format (+ first)");
/** A lone surrogate has no UTF-8 form: the customer would get U+FFFD. */
const text = z.string().refine((given) => given.isWellFormed(), "is not well-formed text");
const texts = z.record(z.string(), text);

export const messageBody = z
  .strictObject({
    account: z.string().min(1).optional().describe("The account that sends it. Required when the settings have several."),
    to: phone.describe("Phone number with country code, starting with `+`."),
    text: text
      .min(1)
      .max(4096)
      .optional()
      .describe("The text. The service accepts it only within 24 hours of the customer's last message."),
    template: z
      .strictObject({
        id: z.string().min(1).describe("The template's id."),
        variables: texts.optional().describe("Values of the template's variables."),
      })
      .optional()
      .describe("An approved template, instead of `text`."),
    phoneNumberId: z.string().min(1).optional().describe("The sending number, if several are connected."),
    reference: idText.optional().describe("Your own reference, such as an order number."),
    metadata: metadataSchema.optional().describe("Your own data, for routes and `payload: enriched`."),
  })
  .refine(({ text, template }) => (text === undefined) !== (template === undefined), "needs exactly one of text and template")
  .meta({ oneOf: [{ required: ["text"] }, { required: ["template"] }] });

export const runBody = z.strictObject({
  account: z.string().min(1).optional().describe("The account that starts it. Required when the settings have several."),
  reference: idText.describe("The business record. It starts one run, once and for all."),
  // The service documents no format.
  phone: z.string().min(1).max(maxIdLength).describe("The customer's phone number, in the service's format."),
  name: text.min(1).optional().describe("The customer's name."),
  data: texts.optional().describe("Values for the automation."),
  metadata: metadataSchema.optional().describe("Your own data, for routes and `payload: enriched`."),
});

const sendQuery = z.strictObject({
  resend: z.coerce
    .number()
    .int()
    .min(1)
    .optional()
    .describe("`details.resend` of the error `outcome_unknown`: sends again although the first attempt may have succeeded."),
  maxWait: durationSchema
    .refine((ms) => ms <= 5 * 60_000, "must be at most 5m")
    .optional()
    .describe("Longest wait for a slot under the account's caps, at most `5m`. Default: `send.maxWait`."),
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

const message = {
  method: "POST",
  path: "/v1/messages",
  name: "sendMessage",
  scope: "send",
  summary: "Sends a message, once per Idempotency-Key",
  description: "The relay registers what it sent. With every error but `outcome_unknown`, nothing was sent.",
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
} as const;

const run = {
  method: "POST",
  path: "/v1/automations/:id/runs",
  name: "startRun",
  scope: "send",
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
} as const;

/** `POST /v1/messages` and `POST /v1/automations/{id}/runs`: docs/concepts/sending.md. */
export function addSendingRoutes(app: FastifyInstance, sending: SendingPort, allow: Allow): void {
  addEndpoint(app, allow, message, async ({ query: { resend = 0, maxWait }, headers, body, request, reply }) => {
    const key = headers["idempotency-key"] ?? null;
    if (key === null && resend > 0) throw new RelayError("bad_request", "resend needs the Idempotency-Key that it is about");
    const { answer, replayed, stored } = await sending.sendMessage({ ...body, key, resend }, callerOf(request, reply, maxWait));
    if (replayed) reply.header("idempotent-replayed", "true");
    reply.code(stored ? 201 : 202);
    return { ...(answer as Omit<z.infer<typeof sentMessageSchema>, "stored">), stored };
  });

  addEndpoint(app, allow, run, async ({ params, query: { resend = 0, maxWait }, body, request, reply }) => {
    const order = { ...body, automation: params.id, resend };
    const { answer, replayed, stored } = await sending.startRun(order, callerOf(request, reply, maxWait));
    reply.code(!stored ? 202 : replayed ? 200 : 201);
    return { ...(answer as Omit<z.infer<typeof startedRunSchema>, "created" | "stored">), created: !replayed, stored };
  });
}

function callerOf({ headers: { traceparent } }: FastifyRequest, reply: FastifyReply, maxWait: number | undefined): SendCaller {
  return { gone: disconnectSignal(reply), maxWait, traceparent };
}
