import fc from "fast-check";
import { Secret } from "../../../src/model/secret.ts";
import {
  type SignatureSettings,
  secretEncodings,
  signatureAlgorithms,
  signatureEncodings,
  signaturePresets,
} from "../../../src/model/signature.ts";
import {
  createVerifier,
  type VerifiableRequest,
  type Verified,
} from "../../../src/receive/verify-request.ts";
import { createSigner } from "../../../src/sandbox/signing.ts";

export const publicUrl = "https://relay.example";
export const signedAtMs = 1_800_000_000_000;

export interface Sent {
  readonly method: string;
  readonly url: string;
  readonly body: Buffer;
  readonly id: string;
  readonly timestampMs: number;
}

export const sent: Sent = {
  method: "POST",
  url: "/webhooks/main?a=1",
  body: Buffer.from('{"id":"e-1","data":{"text":"ñandú"}}\n'),
  id: "msg_1",
  timestampMs: signedAtMs,
};

/** A secret for each encoding, valid in its own only. */
export const secretFor: Record<(typeof secretEncodings)[number], string> = {
  utf8: "señal: plain text",
  hex: "00ff10a0b1c2d3e4f5061728394a5b6c",
  base64: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  whsec: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
};

export function secretOf(settings: SignatureSettings): string {
  return secretFor[
    settings.secretEncoding ?? (settings.preset === "standard-webhooks" ? "whsec" : "utf8")
  ];
}

/**
 * The signature headers of one request, by the sandbox's code: the relay has none to sign by these
 * settings.
 */
export function signatureHeaders(
  settings: SignatureSettings,
  secret: string,
  request: Sent,
): Record<string, string> {
  return createSigner(settings, secret)(request);
}

/** `request` as received, signed with `settings`. */
export function receive(
  settings: SignatureSettings,
  secret: string,
  request: Sent = sent,
): VerifiableRequest {
  const headers = {
    host: "relay.example",
    "content-type": "application/json",
    ...signatureHeaders(settings, secret, request),
  };
  return {
    method: request.method,
    url: request.url,
    headers,
    body: request.body,
    nowMs: request.timestampMs,
  };
}

export function verify(
  settings: SignatureSettings,
  secret: string,
  request: VerifiableRequest,
): Verified {
  return createVerifier({ ...settings, secrets: [new Secret(secret)] })(request);
}

const maybe = <T>(...values: T[]) => fc.option(fc.constantFrom(...values), { nil: undefined });

const rawSettings = fc.record({
  preset: maybe(...signaturePresets),
  algorithm: maybe(...signatureAlgorithms),
  encoding: maybe(...signatureEncodings),
  prefix: maybe("", "sha256=", "v1=", "v0.", "sig:"),
  separator: maybe(",", " ", ";", ", "),
  timestamp: fc.constantFrom("none", "header", "entry"),
  timestampUnit: maybe("s" as const, "ms" as const, "iso" as const),
  tolerance: maybe(1000, 300_000),
  content: maybe(
    "{body}",
    "{timestamp}.{body}",
    "{id}.{timestamp}.{body}",
    "{method}{url}{body}{timestamp}",
    "ü:{id}\n{body}",
    "{body}{body}",
  ),
  secretEncoding: maybe(...secretEncodings),
  publicUrl: maybe(publicUrl, `${publicUrl}/`),
});

/** Usable settings over all axes and presets. */
export const settingsArbitrary: fc.Arbitrary<SignatureSettings> = rawSettings.map(
  ({ timestamp, ...raw }) => {
    const signsTimestamp = raw.content?.includes("{timestamp}") === true;
    const settings = {
      ...raw,
      header: raw.preset === undefined || raw.preset === "plain" ? "x-any" : undefined,
      idHeader: "x-id",
      separator: timestamp === "entry" ? (raw.separator ?? ",") : raw.separator,
      timestampHeader:
        timestamp === "header" || (timestamp === "none" && signsTimestamp) ? "x-time" : undefined,
      timestampField: timestamp === "entry" ? "t" : undefined,
      tolerance: signsTimestamp ? raw.tolerance : undefined,
      publicUrl: raw.publicUrl ?? (raw.preset === "hubspot" ? publicUrl : undefined),
      // The prefix of standard-webhooks is "v1,", so a comma cannot be the separator.
      prefix: raw.prefix ?? (raw.preset === "standard-webhooks" ? "v1=" : undefined),
    };
    return Object.fromEntries(
      Object.entries(settings).filter(([, value]) => value !== undefined),
    ) as SignatureSettings;
  },
);
