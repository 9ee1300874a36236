import type { SignatureSettings, signaturePresets } from "./signature-settings.ts";

export type SignaturePreset = (typeof signaturePresets)[number];
/** The settings that say how a signature is made, without the names that only choose among them. */
export type SignatureAxes = Omit<SignatureSettings, "preset" | "service" | "publicUrl">;

const fiveMinutes = 5 * 60_000;

/** What each preset fills in; what it leaves out is as without a preset (FACTS.md, "Signature schemes met in the field"). */
export const presetAxes: Readonly<Record<SignaturePreset, SignatureAxes>> = {
  plain: { prefix: "" },
  meta: { header: "x-hub-signature-256", prefix: "sha256=" },
  shopify: { header: "x-shopify-hmac-sha256", encoding: "base64", prefix: "" },
  stripe: {
    header: "stripe-signature",
    prefix: "v1=",
    separator: ",",
    timestampField: "t",
    content: "{timestamp}.{body}",
    tolerance: fiveMinutes,
  },
  slack: {
    header: "x-slack-signature",
    prefix: "v0=",
    timestampHeader: "x-slack-request-timestamp",
    content: "v0:{timestamp}:{body}",
    tolerance: fiveMinutes,
  },
  "standard-webhooks": {
    header: "webhook-signature",
    encoding: "base64",
    prefix: "v1,",
    separator: " ",
    idHeader: "webhook-id",
    timestampHeader: "webhook-timestamp",
    content: "{id}.{timestamp}.{body}",
    secretEncoding: "whsec",
    tolerance: fiveMinutes,
  },
  hubspot: {
    header: "x-hubspot-signature-v3",
    encoding: "base64",
    prefix: "",
    timestampHeader: "x-hubspot-request-timestamp",
    timestampUnit: "ms",
    content: "{method}{url}{body}{timestamp}",
    tolerance: fiveMinutes,
  },
};
