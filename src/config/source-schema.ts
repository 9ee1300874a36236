import { z } from "zod";
import { urlDestinationSchema } from "../deliver/settings.ts";
import { fieldsSchema } from "../model/event.ts";
import { secretSchema } from "../model/secret.ts";
import { decodeKey, resolveScheme, signatureSettingsSchema } from "../model/signature.ts";
import { durationSchema } from "../model/units.ts";
import { nameSchema as name } from "../route/settings.ts";
import { destinationFaults, repeatedSecrets, withRule } from "./rules.ts";

const sourceSignatureSchema = withRule(
  signatureSettingsSchema.safeExtend({
    secrets: z
      .array(secretSchema)
      .min(1)
      .describe(
        "Any of these may verify an event; several at once for rotation, the new one first.",
      ),
  }),
  function* (signature) {
    const { secretEncoding } = resolveScheme(signature);
    yield* repeatedSecrets(signature.secrets, ["secrets"]);
    for (const [index, secret] of signature.secrets.entries()) {
      try {
        decodeKey(secret.reveal(), secretEncoding);
      } catch {
        yield {
          path: ["secrets", index],
          message: `is not in the encoding of secretEncoding (${secretEncoding})`,
        };
      }
    }
  },
);

const formatNames = "standard: the service's envelope. meta: webhooks of Meta's Cloud API.";
const kindNames =
  "events: webhook events. automation-request: signed requests of automation steps.";
const eventsKind = z.literal("events").default("events").describe(kindNames);
const accountOfEvents = name
  .optional()
  .describe("The account of its events: a key of accounts. Default: the only account.");

const signed = sourceSignatureSchema.describe("How webhooks are verified.");

const standardSourceSchema = z.strictObject({
  account: accountOfEvents,
  format: z.literal("standard").default("standard").describe(formatNames),
  kind: eventsKind,
  signature: signed,
  fields: fieldsSchema.prefault({}).describe("Where in data the tracked fields are."),
});

const metaSignatureSchema = z.preprocess(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    !["preset", "header", "service"].some((key) => key in value)
      ? { preset: "meta", ...value }
      : value,
  sourceSignatureSchema,
);

const secrets = z.array(secretSchema).min(1);
const metaId = z.string().regex(/^\d{1,32}$/, "is not an id of digits");

/** Senders that pass Meta's webhooks on have other checks. Each one that is given must pass. */
const metaSourceSchema = withRule(
  z.strictObject({
    account: name
      .optional()
      .describe(
        "The account of events whose number is not in accounts. Default: the only account, unless accounts is given.",
      ),
    format: z.literal("meta").describe(formatNames),
    kind: eventsKind,
    accounts: z
      .record(metaId, name)
      .optional()
      .describe(
        "The account of each business number: phone_number_id, or the id of the business account (WABA), to a key of accounts.",
      ),
    verifyTokens: z
      .array(secretSchema)
      .default([])
      .describe("Tokens of Meta's handshake: any of them is answered."),
    signature: metaSignatureSchema
      .optional()
      .describe("How webhooks are verified. Default: as Meta signs, with the app secret."),
    header: z
      .strictObject({
        name: z
          .string()
          .regex(/^[A-Za-z0-9-]+$/, "is not a header name")
          .describe("Its name."),
        values: secrets.describe("Any of these is right."),
      })
      .optional()
      .describe("A fixed header that the sender adds, such as 360dialog can."),
    pathSecrets: secrets
      .optional()
      .describe(
        "For senders that sign nothing: any of these is the last part of the URL, as in /webhooks/wa/<secret>.",
      ),
    graph: z
      .strictObject({
        token: secretSchema.describe("An access token with whatsapp_business_management."),
        businessAccounts: z
          .array(metaId)
          .min(1)
          .max(20)
          .describe("The ids of the business accounts (WABA) whose numbers the source takes."),
        appId: metaId
          .optional()
          .describe(
            "The app's id. With it, the app's own callback is read with the first app secret.",
          ),
        baseUrl: z
          .url({ protocol: /^https?$/ })
          .default("https://graph.facebook.com/v25.0")
          .describe("The Graph API with its version."),
      })
      .optional()
      .describe(
        "Lets doctor ask Meta's Graph API whether webhooks go to this source, and if not, where.",
      ),
    registerBy: z
      .literal("callback-data")
      .optional()
      .describe(
        "callback-data: a status with biz_opaque_callback_data registers its message, with it as the reference.",
      ),
  }),
  function* ({ signature, header, pathSecrets }) {
    if (signature === undefined && header === undefined && pathSecrets === undefined) {
      yield {
        path: ["signature"],
        message: "is missing: a source needs signature, header or pathSecrets",
      };
    }
  },
);

const automationSourceSchema = withRule(
  z.strictObject({
    account: accountOfEvents,
    kind: z.literal("automation-request").describe(kindNames),
    mode: z
      .enum(["ack", "proxy"])
      .default("ack")
      .describe(
        "ack: the relay stores it, answers 200 at once and delivers it later. proxy: it forwards it at once to the destination under to, and returns the answer.",
      ),
    dedupe: durationSchema
      .refine((ms) => ms <= 86_400_000, "must be at most 1d")
      .prefault("5m")
      .describe("How long identical signed bytes count as the same event, at most 1d. 0s: never."),
    signature: signed,
    to: urlDestinationSchema
      .extend({
        timeout: durationSchema
          .refine((ms) => ms >= 100 && ms <= 9500, "must be from 100ms to 9500ms")
          .prefault("9s")
          .describe("Longest time of one exchange. It leaves room within the service's 10 s."),
      })
      .optional()
      .describe(
        "Required with mode: proxy, and only there. As to of a route with a url, but timeout is 100ms to 9500ms and 9s by default.",
      ),
  }),
  function* ({ mode, to }) {
    if (mode === "proxy" && to === undefined)
      yield {
        path: ["to"],
        message: "is missing: mode proxy needs it to know where the request goes",
      };
    if (mode === "ack" && to !== undefined)
      yield { path: ["to"], message: "is for mode proxy; with mode ack, events go to the routes" };
    if (to !== undefined) yield* destinationFaults(to);
  },
);

export const sourceSchema = z.preprocess(
  (value) => {
    if (typeof value !== "object" || value === null) return value;
    const named = "kind" in value ? value : { kind: "events", ...value };
    return named.kind === "events" && !("format" in named)
      ? { format: "standard", ...named }
      : named;
  },
  z.discriminatedUnion("kind", [
    z.discriminatedUnion("format", [standardSourceSchema, metaSourceSchema]),
    automationSourceSchema,
  ]),
);
