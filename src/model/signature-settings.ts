import { z } from "zod";
import { findSchemeFaults } from "./signature-scheme.ts";
import { durationSchema } from "./units.ts";

export const signatureAlgorithms = ["sha1", "sha256", "sha384", "sha512"] as const;
export const signatureEncodings = ["hex", "base64", "base64url"] as const;
export const secretEncodings = ["utf8", "hex", "base64", "whsec"] as const;
/** Families of signature met in the field (FACTS.md, "Signature schemes met in the field"). */
export const signaturePresets = ["plain", "meta", "shopify", "stripe", "slack", "standard-webhooks", "hubspot"] as const;

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "is not a header name")
  .transform((name) => name.toLowerCase());

const axesSchema = z.strictObject({
  preset: z.enum(signaturePresets).optional(),
  /** Short name of the service: the header is then `x-<service>-signature`. */
  service: z
    .string()
    .regex(/^[A-Za-z0-9-]+$/, "is not a short name (letters, digits and hyphens)")
    .optional(),
  /** Header with the signature or signatures, instead of `service`. */
  header: headerName.optional(),
  algorithm: z.enum(signatureAlgorithms).optional(),
  encoding: z.enum(signatureEncodings).optional(),
  /** Text before each signature, such as `sha256=` or `v1,`. Not given: bare or `<algorithm>=`. */
  prefix: z.string().max(32).optional(),
  /** What stands between several signatures in one header, such as `,` or a space. Not given: one signature. */
  separator: z
    .string()
    .max(4)
    .regex(/^[^A-Za-z0-9+/=_-]+$/, "must have no character that a signature can have")
    .optional(),
  /** Header with the timestamp, for `{timestamp}`. */
  timestampHeader: headerName.optional(),
  /** Key of the timestamp inside the signature header, as `t` in `t=…,v1=…`. Needs `separator`. */
  timestampField: z.string().min(1).max(32).optional(),
  /** Unit of the timestamp: Unix seconds, or milliseconds. */
  timestampUnit: z.enum(["s", "ms"]).optional(),
  /** Header with the message id, for `{id}`. */
  idHeader: headerName.optional(),
  /** What is signed, with `{body}` `{timestamp}` `{id}` `{method}` `{url}`. */
  content: z
    .string()
    .max(256)
    .refine((text) => text.includes("{body}"), "must contain {body}")
    .refine((text) => !/\{(?!body\}|timestamp\}|id\}|method\}|url\})/.test(text), "knows {body} {timestamp} {id} {method} {url}")
    .optional(),
  secretEncoding: z.enum(secretEncodings).optional(),
  /** Largest difference between the signed timestamp and now. Needs a timestamp. Not given by default: none. */
  tolerance: durationSchema.optional(),
  /** The relay's public URL up to the path, for `{url}` behind a proxy, such as `https://relay.example`. */
  publicUrl: z.url().optional(),
});
export type SignatureSettings = z.infer<typeof axesSchema>;

/**
 * How a signature is made, as axes. A preset fills axes that are not given; with neither, the default
 * is: HMAC-SHA256 over the body, hex, bare or after `sha256=`. The service's document shows neither
 * algorithm nor encoding, so every part is a setting.
 */
export const signatureSettingsSchema = axesSchema.superRefine((settings, context) => {
  for (const { key, message } of findSchemeFaults(settings)) context.addIssue({ code: "custom", path: [key], message });
});
