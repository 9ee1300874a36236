import { createHmacKey, type HmacKey } from "./hmac.ts";
import { decodeKey, type SecretEncoding, type SignatureAlgorithm, type SignatureEncoding } from "./signature-bytes.ts";
import { presetAxes, type SignatureAxes } from "./signature-presets.ts";
import type { SignatureSettings } from "./signature-settings.ts";

/** A part of the signed content: bytes that are always the same, or something of the request. */
export type ContentPart = Buffer | "body" | "timestamp" | "id" | "method" | "url";

/** How a signature is made and read: a preset, the axes given and the defaults, resolved. */
export interface SignatureScheme {
  /** Header with the signature or signatures, in lower case. */
  readonly header: string;
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
  /** Texts of which one stands before a signature; a sender writes the first. */
  readonly prefixes: readonly [string, ...string[]];
  /** What stands between the entries of the header; null: the header is one signature. */
  readonly separator: string | null;
  /** Where the timestamp is: a header, or an entry `key=…` of the signature header. Null: none is signed. */
  readonly timestamp: { readonly in: "header"; readonly name: string } | { readonly in: "entry"; readonly key: string } | null;
  readonly timestampUnit: "s" | "ms";
  /** Null: no id is signed. */
  readonly idHeader: string | null;
  readonly content: readonly ContentPart[];
  readonly secretEncoding: SecretEncoding;
  readonly toleranceMs: number | null;
  /** Origin put before the request target in `{url}`; empty: the target alone. */
  readonly publicUrl: string;
}

/** What of a request may be signed. Texts of headers as Node gives them: one character a byte. */
export interface SignedRequest {
  readonly method: string;
  /** A request target such as `/webhooks/main`, or a whole URL, of which the target is taken. */
  readonly url: string;
  readonly body: Buffer;
  readonly timestamp: string;
  readonly id: string;
}

/** One fault of the settings: which key, and what is wrong. */
export interface SchemeFault {
  readonly key: keyof SignatureSettings;
  readonly message: string;
}

/** The axes with the preset's and the defaults filled in. An explicit axis is stronger than the preset's. */
function fillAxes(settings: SignatureSettings): SignatureAxes & { content: string } {
  const preset = settings.preset === undefined ? {} : presetAxes[settings.preset];
  const explicit = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined)) as SignatureSettings;
  const axes: SignatureAxes = { ...preset, ...explicit };
  if (explicit.header === undefined && explicit.service !== undefined) axes.header = `x-${explicit.service.toLowerCase()}-signature`;
  // The two ways to give a timestamp exclude each other, so the explicit one takes the place of the preset's.
  if (explicit.timestampHeader !== undefined && explicit.timestampField === undefined) delete axes.timestampField;
  if (explicit.timestampField !== undefined && explicit.timestampHeader === undefined) delete axes.timestampHeader;
  return { ...axes, content: axes.content ?? "{body}" };
}

/** What makes settings unusable although each value is valid by itself; empty when they are good. */
export function findSchemeFaults(settings: SignatureSettings): SchemeFault[] {
  const axes = fillAxes(settings);
  const faults: SchemeFault[] = [];
  const fault = (key: keyof SignatureSettings, message: string) => void faults.push({ key, message });
  const separator = axes.separator?.trim() || axes.separator;
  if (axes.header === undefined) fault("header", "is needed (or service, which makes it x-<service>-signature)");
  if (axes.timestampHeader !== undefined && axes.timestampField !== undefined) {
    fault("timestampField", "and timestampHeader exclude each other");
  }
  if (axes.timestampField !== undefined && separator === undefined) fault("timestampField", "needs separator");
  if (separator !== undefined && axes.prefix?.includes(separator)) fault("prefix", "must not contain the separator");
  const signsTimestamp = axes.content.includes("{timestamp}");
  if (signsTimestamp && axes.timestampHeader === undefined && axes.timestampField === undefined) {
    fault("content", "has {timestamp}, which needs timestampHeader or timestampField");
  }
  // A timestamp that is not signed can be changed by anybody, so it protects from nothing.
  if (settings.tolerance !== undefined && !signsTimestamp) fault("tolerance", "needs {timestamp} in content");
  if (axes.content.includes("{id}") && axes.idHeader === undefined) fault("content", "has {id}, which needs idHeader");
  if (settings.preset === "hubspot" && settings.content === undefined && settings.publicUrl === undefined) {
    fault("publicUrl", "is needed: the preset hubspot signs the whole URL");
  }
  return faults;
}

/**
 * The scheme that settings describe. Throws an Error that names the fault when they are unusable;
 * settings that went through `signatureSettingsSchema` are not.
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
    timestamp: signsTimestamp ? timestampPlace(axes) : null,
    timestampUnit: axes.timestampUnit ?? "s",
    idHeader: axes.content.includes("{id}") ? (axes.idHeader ?? null) : null,
    content: parseContent(axes.content),
    secretEncoding: axes.secretEncoding ?? "utf8",
    toleranceMs: signsTimestamp ? (axes.tolerance ?? null) : null,
    publicUrl: (settings.publicUrl ?? "").replace(/\/+$/, ""),
  };
}

function timestampPlace(axes: SignatureAxes): SignatureScheme["timestamp"] {
  if (axes.timestampField !== undefined) return { in: "entry", key: axes.timestampField };
  return { in: "header", name: axes.timestampHeader as string };
}

function parseContent(content: string): ContentPart[] {
  return content
    .split(/(\{(?:body|timestamp|id|method|url)\})/)
    .filter((part) => part !== "")
    .map((part) => (part.startsWith("{") && part.endsWith("}") ? (part.slice(1, -1) as ContentPart) : Buffer.from(part, "utf8")));
}

/** The key of a secret, decoded once. Throws a RangeError when the secret is not in the scheme's encoding. */
export function signatureKey(scheme: SignatureScheme, secret: string): HmacKey {
  return createHmacKey(scheme.algorithm, decodeKey(secret, scheme.secretEncoding));
}

/** The HMAC over the content, as bytes: the body is hashed as received, never re-encoded. */
export function computeSignature(scheme: SignatureScheme, key: HmacKey, request: SignedRequest): Buffer {
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

/** What a sender signs. `url` may be a whole URL or a request target. */
export interface RequestToSign {
  readonly method: string;
  readonly url: string;
  readonly body: Buffer;
  readonly id: string;
  readonly timestampMs: number;
}

/**
 * What makes the headers that a sender adds to prove a request, with names in lower case. Settings and
 * secret are read once: for who signs many. Throws like {@link resolveScheme} and {@link signatureKey}.
 */
export function createSigner(settings: SignatureSettings, secret: string): (request: RequestToSign) => Record<string, string> {
  const scheme = resolveScheme(settings);
  const key = signatureKey(scheme, secret);
  return (request) => {
    const timestamp = String(scheme.timestampUnit === "ms" ? request.timestampMs : Math.floor(request.timestampMs / 1000));
    const signature = computeSignature(scheme, key, { ...request, timestamp });
    const entry = scheme.prefixes[0] + signature.toString(scheme.encoding);
    const headers: Record<string, string> = {};
    if (scheme.idHeader !== null) headers[scheme.idHeader] = request.id;
    if (scheme.timestamp?.in === "header") headers[scheme.timestamp.name] = timestamp;
    headers[scheme.header] = scheme.timestamp?.in === "entry" ? `${scheme.timestamp.key}=${timestamp}${scheme.separator}${entry}` : entry;
    return headers;
  };
}

/** The headers for one request: see {@link createSigner}. */
export function signatureHeaders(settings: SignatureSettings, secret: string, request: RequestToSign): Record<string, string> {
  return createSigner(settings, secret)(request);
}
