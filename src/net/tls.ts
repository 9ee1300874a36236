import { X509Certificate } from "node:crypto";
import type { PeerCertificate } from "node:tls";
import { z } from "zod";
import { type Secret, secretSchema } from "../model/secret.ts";

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** In order; null when one cannot be read, or there is none. */
function certificatesIn(pem: string): X509Certificate[] | null {
  try {
    const found = (pem.match(certificate) ?? []).map((text) => new X509Certificate(text));
    return found.length === 0 ? null : found;
  } catch {
    return null;
  }
}

const certificatesSchema = z
  .string()
  .refine((pem) => certificatesIn(pem) !== null, "is not one or more certificates as PEM");

/** As OpenSSL judges it, which also refuses keys that are too short. */
function isKeyOf(cert: string, key: Secret): boolean {
  try {
    process.getBuiltinModule("node:tls").createSecureContext({ ca: cert, cert, key: key.reveal() });
    return true;
  } catch {
    return false;
  }
}

/**
 * TLS of connections that the relay opens. Give the files as `${file:…}`: a reload reads them
 * again.
 */
export const tlsSchema = z
  .strictObject({
    ca: certificatesSchema
      .optional()
      .describe("Certificates of the authorities to trust, as PEM. Default: those of Node."),
    cert: certificatesSchema
      .optional()
      .describe("Client certificate as PEM, followed by its chain. Needs key."),
    key: secretSchema.optional().describe("Private key of cert as PEM, without a passphrase."),
  })
  .refine(
    ({ cert, key }) => (cert === undefined) === (key === undefined),
    "needs both cert and key, or neither",
  )
  .refine(({ cert, key }) => cert === undefined || key === undefined || isKeyOf(cert, key), {
    path: ["key"],
    error: "is not the private key of cert, or is not PEM without a passphrase",
  });
export type TlsSettings = z.infer<typeof tlsSchema>;

/** TLS of a port that the relay listens on. */
export const listenTlsSchema = tlsSchema.safeExtend({
  ca: certificatesSchema
    .optional()
    .describe(
      "Authorities of client certificates, as PEM. With it, each client must present a certificate of theirs (mutual TLS).",
    ),
  cert: certificatesSchema.describe("Certificate of the port as PEM, followed by its chain."),
  key: secretSchema.describe("Private key of cert as PEM, without a passphrase."),
});
export type ListenTls = z.infer<typeof listenTlsSchema>;

/** As Node's `https.createServer` takes them. */
export function listenOptions(tls: ListenTls) {
  return { ...tlsOptions(tls), requestCert: tls.ca !== undefined, rejectUnauthorized: true };
}

/**
 * For `tls.connect` to a port of this machine. Its address is not in the certificate, so the names
 * are those of the settings' certificate. Where the port requires a client certificate, its own is
 * presented.
 */
export function ownPortOptions({ ca, cert, key }: ListenTls) {
  const names = certificatesIn(cert)?.[0]?.subjectAltName;
  return {
    cert,
    key: key.reveal(),
    ca: [
      ...process.getBuiltinModule("node:tls").getCACertificates("default"),
      cert,
      ...(ca === undefined ? [] : [ca]),
    ],
    // The file may hold the certificate without its authority.
    allowPartialTrustChain: true,
    checkServerIdentity: (_host: string, { subjectaltname }: PeerCertificate) =>
      subjectaltname === names
        ? undefined
        : Object.assign(new Error("another certificate"), { code: "ERR_TLS_CERT_ALTNAME_INVALID" }),
  };
}

/** As Node's `tls.connect` takes them. */
export function tlsOptions({ ca, cert, key }: TlsSettings = {}) {
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined || key === undefined ? {} : { cert, key: key.reveal() }),
  };
}

/** Without disclosing the key. */
export function tlsKey(tls: TlsSettings | undefined): string {
  return JSON.stringify([tls?.ca, tls?.cert, tls?.key?.fingerprint()]);
}

/** In unix ms; null without any certificate. */
export function expiryOf({ ca, cert }: TlsSettings = {}): number | null {
  const all = [ca, cert].flatMap((pem) => (pem === undefined ? [] : (certificatesIn(pem) ?? [])));
  return all.length === 0 ? null : Math.min(...all.map(({ validTo }) => Date.parse(validTo)));
}
