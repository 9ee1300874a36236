import { createHmac, randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";

const header = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "is not a header name");
const presets = {
  plain: { prefix: "" },
  meta: { header: "x-hub-signature-256", prefix: "sha256=" },
  shopify: { header: "x-shopify-hmac-sha256", encoding: "base64" },
  stripe: {
    header: "stripe-signature",
    prefix: "v1=",
    separator: ",",
    timestampField: "t",
    content: "{timestamp}.{body}",
  },
  slack: {
    header: "x-slack-signature",
    prefix: "v0=",
    timestampHeader: "x-slack-request-timestamp",
    content: "v0:{timestamp}:{body}",
  },
  "standard-webhooks": {
    header: "webhook-signature",
    encoding: "base64",
    prefix: "v1,",
    idHeader: "webhook-id",
    timestampHeader: "webhook-timestamp",
    content: "{id}.{timestamp}.{body}",
    secretEncoding: "whsec",
  },
  hubspot: {
    header: "x-hubspot-signature-v3",
    encoding: "base64",
    timestampHeader: "x-hubspot-request-timestamp",
    timestampUnit: "ms",
    content: "{method}{url}{body}{timestamp}",
  },
} as const;

/** Takes the words of a source's `signature` in the relay's settings. */
export const signingSchema = z
  .strictObject({
    preset: z
      .enum(Object.keys(presets) as [keyof typeof presets, ...(keyof typeof presets)[]])
      .optional(),
    service: z
      .string()
      .regex(/^[A-Za-z0-9-]+$/, "is not a short name (letters, digits and hyphens)")
      .optional(),
    header: header.optional(),
    algorithm: z.enum(["sha1", "sha256", "sha384", "sha512"]).optional(),
    encoding: z.enum(["hex", "base64", "base64url"]).optional(),
    prefix: z.string().max(32).optional(),
    separator: z.string().min(1).max(4).optional(),
    timestampHeader: header.optional(),
    timestampField: z.string().min(1).max(32).optional(),
    timestampUnit: z.enum(["s", "ms", "iso"]).optional(),
    idHeader: header.optional(),
    content: z.string().max(256).includes("{body}", { error: "must contain {body}" }).optional(),
    secretEncoding: z.enum(["utf8", "hex", "base64", "whsec"]).optional(),
    tolerance: z.union([z.string(), z.number()]).optional(),
    publicUrl: z.url().optional(),
  })
  .superRefine((settings, context) => {
    const {
      header: name,
      content = "",
      timestampHeader,
      timestampField,
      idHeader,
    } = filled(settings);
    const fault = (key: string, message: string) =>
      context.addIssue({ code: "custom", path: [key], message });
    if (name === undefined)
      fault("header", "is needed (or service, which makes it x-<service>-signature)");
    if (
      content.includes("{timestamp}") &&
      timestampHeader === undefined &&
      timestampField === undefined
    ) {
      fault("content", "has {timestamp}, which needs timestampHeader or timestampField");
    }
    if (content.includes("{id}") && idHeader === undefined)
      fault("content", "has {id}, which needs idHeader");
  });
export type SigningSettings = Readonly<z.input<typeof signingSchema>>;

function filled({
  preset,
  service,
  ...given
}: SigningSettings): Omit<SigningSettings, "preset" | "service"> {
  const own = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as typeof given;
  const named = service === undefined ? {} : { header: `x-${service}-signature` };
  const family: Omit<SigningSettings, "service"> =
    preset === undefined ? {} : { ...presets[preset] };
  // A timestamp has one place: the one given replaces the preset's.
  const { timestampHeader, timestampField, ...rest } = family;
  const place =
    own.timestampHeader === undefined && own.timestampField === undefined
      ? { timestampHeader, timestampField }
      : {};
  return { ...rest, ...place, ...named, ...own };
}

export interface RequestToSign {
  readonly method: string;
  readonly url: string;
  readonly body: Buffer;
  readonly id: string;
  readonly timestampMs: number;
}

/**
 * Makes the signature headers. Throws RangeError, which does not quote the secret, when it is not
 * in its encoding.
 */
export function createSigner(
  settings: SigningSettings,
  secret: string,
): (request: RequestToSign) => Record<string, string> {
  const {
    algorithm = "sha256",
    encoding = "hex",
    content = "{body}",
    prefix = "",
    separator = ",",
    ...more
  } = filled(settings);
  const {
    timestampHeader,
    timestampField,
    timestampUnit,
    idHeader,
    publicUrl = "",
    secretEncoding = "utf8",
  } = more;
  const key = keyOf(secret, secretEncoding);
  const parts = content.split(/\{(body|timestamp|id|method|url)\}/);
  return ({ method, url, body, id, timestampMs }) => {
    const target = url.replace(/^https?:\/\/[^/?#]*/i, "").replace(/^(?!\/)/, "/");
    const timestamp =
      timestampUnit === "iso"
        ? new Date(timestampMs).toISOString()
        : String(Math.floor(timestampMs / (timestampUnit === "ms" ? 1 : 1000)));
    const values: Record<string, string | Buffer> = {
      body,
      timestamp,
      id,
      method,
      url: publicUrl.replace(/\/+$/, "") + target,
    };
    const hmac = createHmac(algorithm, key);
    for (const [place, part] of parts.entries())
      hmac.update(place % 2 === 0 ? part : (values[part] as string | Buffer));
    const signature = prefix + hmac.digest(encoding);
    const signsTime = content.includes("{timestamp}");
    const isEntry = signsTime && timestampField !== undefined;
    return {
      ...(idHeader !== undefined && content.includes("{id}")
        ? { [idHeader.toLowerCase()]: id }
        : {}),
      ...(signsTime && !isEntry && timestampHeader !== undefined
        ? { [timestampHeader.toLowerCase()]: timestamp }
        : {}),
      [(more.header ?? "").toLowerCase()]: isEntry
        ? `${timestampField}=${timestamp}${separator}${signature}`
        : signature,
    };
  };
}

function keyOf(secret: string, encoding: "utf8" | "hex" | "base64" | "whsec"): Buffer {
  const text = encoding === "whsec" ? secret.replace(/^whsec_/, "") : secret;
  const isEncoded =
    encoding === "utf8" ||
    (encoding === "hex" ? /^([0-9a-f]{2})+$/i : /^[A-Za-z0-9+/_-]+={0,2}$/).test(text);
  if (!isEncoded)
    throw new RangeError(
      encoding === "whsec"
        ? "the secret is not base64 (after whsec_)"
        : `the secret is not ${encoding}`,
    );
  return Buffer.from(text, encoding === "whsec" ? "base64" : encoding);
}

export type SignatureVerdict = "valid" | "invalid" | "absent";

/** As a downstream would. The timestamp's age is not checked: tests run on clocks of their own. */
export function verifyAs(
  preset: "standard-webhooks" | "meta",
  headers: IncomingHttpHeaders,
  body: Buffer,
  secret: string,
): SignatureVerdict {
  const given = headers[presets[preset].header];
  if (typeof given !== "string") return "absent";
  const { "webhook-id": id = "", "webhook-timestamp": timestamp = "" } = headers;
  if (preset !== "meta" && (id === "" || !/^\d+$/.test(String(timestamp)))) return "invalid";
  const sign = createSigner(
    { preset, secretEncoding: secret.startsWith("whsec_") && preset !== "meta" ? "whsec" : "utf8" },
    secret,
  );
  const right = sign({
    method: "POST",
    url: "/",
    body,
    id: String(id),
    timestampMs: Number(timestamp) * 1000,
  });
  return given.split(" ").includes(right[presets[preset].header] as string) ? "valid" : "invalid";
}

export function newSecret(): string {
  return `whsec_${randomBytes(24).toString("base64")}`;
}
