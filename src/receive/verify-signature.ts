import { timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Secret } from "../event/secret.ts";
import { computeSignature, resolveScheme, type SignatureScheme, type SignedRequest, signatureKey } from "../event/signature-scheme.ts";
import type { SignatureSettings } from "../event/signature-settings.ts";
import { readSignatureHeader } from "./signature-header.ts";

export type Verified =
  | {
      readonly ok: true;
      /** Fingerprint of the secret that proved the request. */
      readonly secret: string;
      /** The headers the signature rests on, to keep with the event; names in lower case. */
      readonly headers: Record<string, string>;
      /** Of what was signed: whoever sends the same again cannot change it. */
      readonly digest: Buffer;
    }
  | { readonly ok: false; readonly reason: SignatureRefusal };

/**
 * Why a request is not proved. `missing-signature`: a header the scheme needs is not there;
 * `stale-timestamp`: the signature is right, but too far from now (a replay, or a clock that is wrong).
 */
export type SignatureRefusal = "missing-signature" | "malformed-signature" | "no-match" | "missing-timestamp" | "stale-timestamp";

/** A request as it came in; `url` is the request target, `nowMs` Unix milliseconds. */
export interface VerifiableRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly nowMs: number;
}

/** Never throws. */
export type Verifier = (request: VerifiableRequest) => Verified;

const unixTime = /^[0-9]{1,15}$/;

/**
 * A verifier for one source, with keys decoded once. Any of the secrets may prove a request.
 * Throws when the settings contradict themselves or a secret is not in its encoding.
 */
export function createVerifier(settings: SignatureSettings & { secrets: readonly Secret[] }): Verifier {
  const scheme = resolveScheme(settings);
  const keys = settings.secrets.map((secret) => ({ key: signatureKey(scheme, secret.reveal()), fingerprint: secret.fingerprint() }));
  return (request) => {
    const value = readHeader(request.headers, scheme.header);
    if (value === null) return refused("missing-signature");
    const header = readSignatureHeader(scheme, value);
    if (header === null) return refused("malformed-signature");

    const timestamp = scheme.timestamp?.in === "header" ? readHeader(request.headers, scheme.timestamp.name) : header.timestamp;
    if (scheme.timestamp !== null && (timestamp === null || timestamp === "")) return refused("missing-timestamp");
    if (scheme.toleranceMs !== null && !unixTime.test(timestamp ?? "")) return refused("malformed-signature");
    const id = scheme.idHeader === null ? "" : readHeader(request.headers, scheme.idHeader);
    if (id === null) return refused("missing-signature");

    const signed: SignedRequest = { method: request.method, url: request.url, body: request.body, timestamp: timestamp ?? "", id };
    for (const { key, fingerprint } of keys) {
      const expected = computeSignature(scheme, key, signed);
      if (!isAmong(header.signatures, expected)) continue;
      // Asked last, so that "stale" always means: signed by the right secret.
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
    // timingSafeEqual throws on unequal lengths; the length of a signature is no secret.
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
  const signedAtMs = Number(timestamp) * (scheme.timestampUnit === "ms" ? 1 : 1000);
  return Math.abs(nowMs - signedAtMs) > scheme.toleranceMs;
}

function headersToKeep(scheme: SignatureScheme, value: string, signed: SignedRequest): Record<string, string> {
  const headers: Record<string, string> = { [scheme.header]: value };
  if (scheme.timestamp?.in === "header") headers[scheme.timestamp.name] = signed.timestamp;
  if (scheme.idHeader !== null) headers[scheme.idHeader] = signed.id;
  return headers;
}
