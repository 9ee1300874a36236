import { timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Secret } from "../../model/secret.ts";
import {
  computeSignature,
  decodeStrictly,
  digestLengths,
  resolveScheme,
  type SignatureScheme,
  type SignatureSettings,
  type SignedRequest,
  signatureKey,
  timestampMs,
} from "../../model/signature.ts";

export type Verified =
  | {
      readonly ok: true;
      /** A fingerprint. */
      readonly secret: string;
      /** That the signature depends on; names in lower case. */
      readonly headers: Record<string, string>;
      /** Of the signed content. A sender that repeats the request cannot change it. */
      readonly digest: Buffer;
    }
  | { readonly ok: false; readonly reason: SignatureRefusal };

/** `stale-timestamp`: the signature matches. */
export type SignatureRefusal = "missing-signature" | "malformed-signature" | "no-match" | "missing-timestamp" | "stale-timestamp";

/** `url` is its target, or the whole URL it was sent to. */
export interface CapturedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface VerifiableRequest extends CapturedRequest {
  readonly nowMs: number;
}

/** Throws when the settings contradict themselves or a secret is not in its encoding. */
export function createVerifier(settings: SignatureSettings & { secrets: readonly Secret[] }) {
  const scheme = resolveScheme(settings);
  const keys = settings.secrets.map((secret) => ({ key: signatureKey(scheme, secret.reveal()), fingerprint: secret.fingerprint() }));
  /** Never throws. */
  return (request: VerifiableRequest): Verified => {
    const value = readHeader(request.headers, scheme.header);
    if (value === null) return refused("missing-signature");
    const header = readSignatureHeader(scheme, value);
    if (header === null) return refused("malformed-signature");

    const timestamp = scheme.timestamp?.in === "header" ? readHeader(request.headers, scheme.timestamp.name) : header.timestamp;
    if (scheme.timestamp !== null && (timestamp === null || timestamp === "")) return refused("missing-timestamp");
    if (scheme.toleranceMs !== null && Number.isNaN(timestampMs(timestamp ?? "", scheme.timestampUnit)))
      return refused("malformed-signature");
    const id = scheme.idHeader === null ? "" : readHeader(request.headers, scheme.idHeader);
    if (id === null) return refused("missing-signature");

    const signed: SignedRequest = { method: request.method, url: request.url, body: request.body, timestamp: timestamp ?? "", id };
    for (const { key, fingerprint } of keys) {
      const expected = computeSignature(scheme, key, signed);
      if (!isAmong(header.signatures, expected)) continue;
      // Checked last, so that "stale" implies a valid signature.
      if (isStale(scheme, signed.timestamp, request.nowMs)) return refused("stale-timestamp");
      return { ok: true, secret: fingerprint, headers: headersToKeep(scheme, value, signed), digest: expected };
    }
    return refused("no-match");
  };
}

function refused(reason: SignatureRefusal): Verified {
  return { ok: false, reason };
}

function isAmong(signatures: readonly Buffer[], expected: Buffer): boolean {
  for (const signature of signatures) {
    // timingSafeEqual throws on unequal lengths; the length of a signature is not secret.
    if (signature.length === expected.length && timingSafeEqual(signature, expected)) return true;
  }
  return false;
}

function readHeader(headers: IncomingHttpHeaders, name: string): string | null {
  const value = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (value === undefined || value.length === 0) return null;
  return typeof value === "string" ? value : value.join(", ");
}

function isStale(scheme: SignatureScheme, timestamp: string, nowMs: number): boolean {
  if (scheme.toleranceMs === null) return false;
  return Math.abs(nowMs - timestampMs(timestamp, scheme.timestampUnit)) > scheme.toleranceMs;
}

function headersToKeep(scheme: SignatureScheme, value: string, signed: SignedRequest): Record<string, string> {
  const headers: Record<string, string> = { [scheme.header]: value };
  if (scheme.timestamp?.in === "header") headers[scheme.timestamp.name] = signed.timestamp;
  if (scheme.idHeader !== null) headers[scheme.idHeader] = signed.id;
  return headers;
}

/** Senders write one per secret during a rotation. A header with more is refused as a whole. */
const maxSignatures = 16;

/** As HTTP does. Not a regular expression: `[ \t]+$` takes quadratic time on blanks, and the sender is not verified yet. */
function trimBlanks(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isBlank(text, from)) from += 1;
  while (to > from && isBlank(text, to - 1)) to -= 1;
  return text.slice(from, to);
}

const isBlank = (text: string, at: number): boolean => text[at] === " " || text[at] === "\t";

interface SignatureHeader {
  readonly signatures: readonly Buffer[];
  readonly timestamp: string | null;
}

/** With a separator, other entries are skipped. Without one, a header given twice, which Node joins with ", ", is refused. */
function readSignatureHeader(scheme: SignatureScheme, value: string): SignatureHeader | null {
  if (scheme.separator === null) {
    const signature = readSignature(scheme, value);
    return signature === null ? null : { signatures: [signature], timestamp: null };
  }
  const timestampStart = scheme.timestamp?.in === "entry" ? `${scheme.timestamp.key}=` : null;
  const signatures: Buffer[] = [];
  let timestamp: string | null = null;
  // ", " separates like ",": blanks around an entry are ignored.
  for (const untrimmed of value.split(scheme.separator.trim() || scheme.separator)) {
    const entry = trimBlanks(untrimmed);
    if (timestampStart !== null && entry.startsWith(timestampStart)) {
      const text = entry.slice(timestampStart.length);
      if (timestamp !== null && timestamp !== text) return null;
      timestamp = text;
      continue;
    }
    const signature = readSignature(scheme, entry);
    if (signature === null) continue;
    if (signatures.length === maxSignatures) return null;
    signatures.push(signature);
  }
  return signatures.length === 0 ? null : { signatures, timestamp };
}

function readSignature(scheme: SignatureScheme, entry: string): Buffer | null {
  for (const prefix of scheme.prefixes) {
    if (!entry.startsWith(prefix)) continue;
    const bytes = decodeStrictly(prefix === "" ? entry : entry.slice(prefix.length), scheme.encoding);
    if (bytes !== null && bytes.length === digestLengths[scheme.algorithm]) return bytes;
  }
  return null;
}
