import { createHmac, createSecretKey } from "node:crypto";
import { z } from "zod";
import { readTime } from "./envelope.ts";
import { headerName } from "./secret.ts";
import { durationSchema } from "./units.ts";

export const signatureAlgorithms = ["sha1", "sha256", "sha384", "sha512"] as const;
export type SignatureAlgorithm = (typeof signatureAlgorithms)[number];
export const signatureEncodings = ["hex", "base64", "base64url"] as const;
export type SignatureEncoding = (typeof signatureEncodings)[number];
export const secretEncodings = ["utf8", "hex", "base64", "whsec"] as const;
export type SecretEncoding = (typeof secretEncodings)[number];
export const signaturePresets = [
  "plain",
  "meta",
  "shopify",
  "stripe",
  "slack",
  "standard-webhooks",
  "hubspot",
] as const;
type SignaturePreset = (typeof signaturePresets)[number];

const signedHeader = headerName.transform((name) => name.toLowerCase());

const axesSchema = z.strictObject({
  preset: z
    .enum(signaturePresets)
    .optional()
    .describe("A family of signatures, which fills the settings that are absent."),
  service: z
    .string()
    .regex(/^[A-Za-z0-9-]+$/, "is not a short name (letters, digits and hyphens)")
    .optional()
    .describe("Short name of the service: the header is then x-<service>-signature."),
  header: signedHeader
    .optional()
    .describe("Header with the signature or signatures, instead of service."),
  algorithm: z
    .enum(signatureAlgorithms)
    .optional()
    .describe("The hash of the HMAC. Default: sha256."),
  encoding: z
    .enum(signatureEncodings)
    .optional()
    .describe("How the signature is written. Default: hex."),
  prefix: z
    .string()
    .max(32)
    .optional()
    .describe(
      "Text before each signature, such as v1,. Default: none, or the algorithm and an equals sign.",
    ),
  separator: z
    .string()
    .max(4)
    .regex(/^[^A-Za-z0-9+/=_-]+$/, "must have no character that a signature can have")
    .optional()
    .describe(
      "Text between several signatures in one header, such as a comma or a space. Default: one signature.",
    ),
  timestampHeader: signedHeader.optional().describe("Header with the timestamp, for {timestamp}."),
  timestampField: z
    .string()
    .min(1)
    .max(32)
    .optional()
    .describe(
      "Key of the timestamp inside the signature header, as t in t=…,v1=…. Requires separator.",
    ),
  timestampUnit: z
    .enum(["s", "ms", "iso"])
    .optional()
    .describe(
      "Unit of the timestamp: Unix seconds (the default), milliseconds, or iso for ISO 8601.",
    ),
  idHeader: signedHeader.optional().describe("Header with the message id, for {id}."),
  content: z
    .string()
    .max(256)
    .refine((text) => text.includes("{body}"), "must contain {body}")
    .refine(
      (text) => !/\{(?!body\}|timestamp\}|id\}|method\}|url\})/.test(text),
      "knows {body} {timestamp} {id} {method} {url}",
    )
    .optional()
    .describe(
      "What is signed, with {body}, {timestamp}, {id}, {method} and {url}. Default: {body}.",
    ),
  secretEncoding: z
    .enum(secretEncodings)
    .optional()
    .describe("How the secrets are written; whsec is base64 after whsec_. Default: utf8."),
  tolerance: durationSchema
    .optional()
    .describe(
      "Largest difference between the signed timestamp and now. Requires a timestamp. Default: none.",
    ),
  publicUrl: z
    .url()
    .optional()
    .describe(
      "The relay's public URL up to the path, for {url} behind a proxy, such as https://relay.example.",
    ),
});
export type SignatureSettings = z.infer<typeof axesSchema>;

/**
 * Preset and axes of a signature. Every part is a setting, because the service's document shows
 * neither algorithm nor encoding.
 */
export const signatureSettingsSchema = axesSchema.superRefine((settings, context) => {
  for (const { key, message } of findSchemeFaults(settings))
    context.addIssue({ code: "custom", path: [key], message });
});

type SignatureAxes = Omit<SignatureSettings, "preset" | "service" | "publicUrl">;

const fiveMinutes = 5 * 60_000;

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

type ContentPart = Buffer | "body" | "timestamp" | "id" | "method" | "url";

export interface SignatureScheme {
  readonly header: string;
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
  /** One of these texts precedes each signature. */
  readonly prefixes: readonly string[];
  /** What separates the entries of the header; null: the header is one signature. */
  readonly separator: string | null;
  /**
   * The place of the timestamp: a header, or an entry `key=…` of the signature header. Null: none
   * is signed.
   */
  readonly timestamp:
    | { readonly in: "header"; readonly name: string }
    | { readonly in: "entry"; readonly key: string }
    | null;
  readonly timestampUnit: "s" | "ms" | "iso";
  readonly idHeader: string | null;
  readonly content: readonly ContentPart[];
  readonly secretEncoding: SecretEncoding;
  readonly toleranceMs: number | null;
  /** Origin before the request target in `{url}`; empty: the target alone. */
  readonly publicUrl: string;
}

type SchemeFault = { readonly key: keyof SignatureSettings; readonly message: string };

function fillAxes(settings: SignatureSettings): SignatureAxes & { content: string } {
  const preset = settings.preset === undefined ? {} : presetAxes[settings.preset];
  const explicit = Object.fromEntries(
    Object.entries(settings).filter(([, value]) => value !== undefined),
  ) as SignatureSettings;
  const axes: SignatureAxes = { ...preset, ...explicit };
  if (explicit.header === undefined && explicit.service !== undefined)
    axes.header = `x-${explicit.service.toLowerCase()}-signature`;
  // The two places of a timestamp exclude each other, so the explicit one replaces the preset's.
  if (explicit.timestampHeader !== undefined && explicit.timestampField === undefined)
    delete axes.timestampField;
  if (explicit.timestampField !== undefined && explicit.timestampHeader === undefined)
    delete axes.timestampHeader;
  return { ...axes, content: axes.content ?? "{body}" };
}

export function findSchemeFaults(settings: SignatureSettings): SchemeFault[] {
  const axes = fillAxes(settings);
  const faults: SchemeFault[] = [];
  const fault = (key: keyof SignatureSettings, message: string) =>
    void faults.push({ key, message });
  const separator = axes.separator?.trim() || axes.separator;
  if (axes.header === undefined)
    fault("header", "is needed (or service, which makes it x-<service>-signature)");
  if (axes.timestampHeader !== undefined && axes.timestampField !== undefined) {
    fault("timestampField", "and timestampHeader exclude each other");
  }
  if (axes.timestampField !== undefined && separator === undefined)
    fault("timestampField", "needs separator");
  if (separator !== undefined && axes.prefix?.includes(separator))
    fault("prefix", "must not contain the separator");
  const signsTimestamp = axes.content.includes("{timestamp}");
  if (signsTimestamp && axes.timestampHeader === undefined && axes.timestampField === undefined) {
    fault("content", "has {timestamp}, which needs timestampHeader or timestampField");
  }
  // Anyone can change a timestamp that is not signed, so it protects from nothing.
  if (settings.tolerance !== undefined && !signsTimestamp)
    fault("tolerance", "needs {timestamp} in content");
  if (axes.content.includes("{id}") && axes.idHeader === undefined)
    fault("content", "has {id}, which needs idHeader");
  if (
    settings.preset === "hubspot" &&
    settings.content === undefined &&
    settings.publicUrl === undefined
  ) {
    fault("publicUrl", "is needed: the preset hubspot signs the whole URL");
  }
  return faults;
}

/**
 * The scheme that settings describe. Throws an Error for settings that {@link
 * signatureSettingsSchema} refuses.
 */
export function resolveScheme(settings: SignatureSettings): SignatureScheme {
  const [fault] = findSchemeFaults(settings);
  if (fault !== undefined) throw new Error(`signature: ${fault.key} ${fault.message}`);
  const axes = fillAxes(settings);
  const algorithm = axes.algorithm ?? "sha256";
  const signsTimestamp = axes.content.includes("{timestamp}");
  return {
    header: axes.header as string,
    algorithm,
    encoding: axes.encoding ?? "hex",
    prefixes: axes.prefix === undefined ? ["", `${algorithm}=`] : [axes.prefix],
    separator: axes.separator ?? null,
    timestamp: !signsTimestamp
      ? null
      : axes.timestampField !== undefined
        ? { in: "entry", key: axes.timestampField }
        : { in: "header", name: axes.timestampHeader as string },
    timestampUnit: axes.timestampUnit ?? "s",
    idHeader: axes.content.includes("{id}") ? (axes.idHeader ?? null) : null,
    content: axes.content
      .split(/(\{(?:body|timestamp|id|method|url)\})/)
      .filter((part) => part !== "")
      .map((part) =>
        part.startsWith("{") && part.endsWith("}")
          ? (part.slice(1, -1) as ContentPart)
          : Buffer.from(part, "utf8"),
      ),
    secretEncoding: axes.secretEncoding ?? "utf8",
    toleranceMs: signsTimestamp ? (axes.tolerance ?? null) : null,
    publicUrl: (settings.publicUrl ?? "").replace(/\/+$/, ""),
  };
}

export const digestLengths: Readonly<Record<SignatureAlgorithm, number>> = {
  sha1: 20,
  sha256: 32,
  sha384: 48,
  sha512: 64,
};

const hexDigits = /^[0-9a-fA-F]+$/;

/**
 * The bytes of a text; null when it is not exactly in that encoding. `Buffer.from` skips or stops
 * at unknown characters, so that several texts would be one signature.
 */
export function decodeStrictly(text: string, encoding: SignatureEncoding): Buffer | null {
  if (encoding === "hex")
    return text.length % 2 === 0 && hexDigits.test(text) ? Buffer.from(text, "hex") : null;
  const bytes = Buffer.from(text, encoding);
  if (bytes.length === 0) return null;
  const bare = bytes.toString(encoding).replace(/=+$/, "");
  return text === bare || text === bare + "=".repeat((3 - (bytes.length % 3)) % 3) ? bytes : null;
}

/**
 * The key of a secret. Throws a RangeError, which does not quote the secret, when the text is not
 * in that encoding.
 */
export function decodeKey(secret: string, encoding: SecretEncoding): Buffer {
  const key = keyBytes(secret, encoding);
  if (key === null || key.length === 0) {
    throw new RangeError(
      encoding === "whsec"
        ? "the secret is not base64 (after whsec_)"
        : `the secret is not ${encoding}`,
    );
  }
  return key;
}

function keyBytes(secret: string, encoding: SecretEncoding): Buffer | null {
  switch (encoding) {
    case "utf8":
      return Buffer.from(secret, "utf8");
    case "hex":
      return decodeStrictly(secret, "hex");
    case "base64":
      return decodeStrictly(secret, "base64") ?? decodeStrictly(secret, "base64url");
    case "whsec":
      return decodeStrictly(secret.replace(/^whsec_/, ""), "base64");
  }
}

export interface HmacKey {
  /** The HMAC over the joined parts. Texts have one character per byte. */
  digest(parts: readonly (Buffer | string)[]): Buffer;
}

export function createHmacKey(algorithm: SignatureAlgorithm, secret: Buffer): HmacKey {
  const key = createSecretKey(secret);
  return {
    digest(parts) {
      const hmac = createHmac(algorithm, key);
      for (const part of parts) {
        if (typeof part === "string") hmac.update(part, "latin1");
        else hmac.update(part);
      }
      return hmac.digest();
    },
  };
}

export function signatureKey(scheme: SignatureScheme, secret: string): HmacKey {
  return createHmacKey(scheme.algorithm, decodeKey(secret, scheme.secretEncoding));
}

const unixTime = /^[0-9]{1,15}$/;

/** A timestamp in Unix milliseconds; NaN when it is not in the unit. */
export function timestampMs(text: string, unit: SignatureScheme["timestampUnit"]): number {
  if (unixTime.test(text))
    return unit === "iso" ? Number.NaN : Number(text) * (unit === "ms" ? 1 : 1000);
  return unit === "iso" ? Date.parse(readTime(text) ?? "") : Number.NaN;
}

/**
 * The parts of a request that may be signed. Header values have one character per byte, as in Node.
 */
export interface SignedRequest {
  readonly method: string;
  /** A request target such as `/webhooks/main`, or a whole URL, of which the target counts. */
  readonly url: string;
  readonly body: Buffer;
  readonly timestamp: string;
  readonly id: string;
}

/** The HMAC over the content. The body is hashed as received. */
export function computeSignature(
  scheme: SignatureScheme,
  key: HmacKey,
  request: SignedRequest,
): Buffer {
  return key.digest(
    scheme.content.map((part) => {
      if (typeof part !== "string") return part;
      return part === "url" ? signedUrl(scheme, request.url) : request[part];
    }),
  );
}

function signedUrl(scheme: SignatureScheme, url: string): string {
  const target = url.replace(/^https?:\/\/[^/?#]*/i, "");
  return scheme.publicUrl + (target.startsWith("/") ? target : `/${target}`);
}
