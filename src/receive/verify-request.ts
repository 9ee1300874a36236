import { isUtf8 } from "node:buffer";
import { createHash, hash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { parseEnvelope } from "../model/envelope.ts";
import { type QuarantinedBody, type ReceivedEvent, subjectOf } from "../model/event.ts";
import { accountOf, formats, noAccountText, requestText } from "../model/formats/formats.ts";
import { derivedUuid, type EventId, uuidv7 } from "../model/ids.ts";
import { isObject } from "../model/json.ts";
import type { Secret } from "../model/secret.ts";
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
} from "../model/signature.ts";
import { type InboundSource, isAnyOf, type SeveralSettings } from "./inbound-source.ts";

export type ReceivedItem =
  | { readonly kind: "event"; readonly event: ReceivedEvent }
  | { readonly kind: "quarantined"; readonly body: QuarantinedBody };

export type VerifiedRequest =
  | ReceivedItem
  /** `read` parses the body, which may be large. */
  | { readonly kind: "several"; readonly read: () => readonly ReceivedItem[] }
  | { readonly kind: "large"; readonly read: () => ReceivedItem }
  | { readonly kind: "refused"; readonly reason: SignatureRefusal };

/** Bodies from here on are read one after the other: parsed, a body takes many times its bytes. */
export const largeBytes = 128 * 1024;

/** It has no envelope, so the relay makes one. */
export const automationRequest = "automation.request";

type Received = Omit<QuarantinedBody, "error" | "disposition" | "id">;

/** Adds what a trace needs. `startedAt` is of `performance.now()`. */
export type Traced = (received: Received, traceparent: unknown, startedAt: number) => Received;

/** `traced`: absent while traces are off. */
export function createRequestVerifier(source: InboundSource, traced?: Traced) {
  const verify = createCheck(source.signature, source.several);
  return (request: VerifiableRequest, startedAt: number): VerifiedRequest => {
    const { headers, body, nowMs: now } = request;
    const verified = verify(request);
    if (!verified.ok) return { kind: "refused", reason: verified.reason };
    const plain: Received = {
      account: source.account,
      source: source.name,
      origin: "webhook",
      receivedAt: now,
      body,
      // No content type: a valid envelope is JSON whatever its content type was.
      headers: verified.headers,
      secret: verified.secret,
    };
    const received = traced?.(plain, headers["traceparent"], startedAt) ?? plain;
    const { several } = source;
    if (several !== undefined)
      return { kind: "several", read: () => readItems(several, source, received) };
    const { digest } = verified;
    const isAutomation = source.kind === "automation-request";
    // One that is passed on at once waits for nothing.
    if (body.length >= largeBytes && source.mode !== "proxy") {
      const read = () =>
        isAutomation ? readAutomation(received, headers, digest) : readEvent(source, received);
      return { kind: "large", read };
    }
    return isAutomation ? readAutomation(received, headers, digest) : readEvent(source, received);
  };
}

function readAutomation(
  received: Received,
  headers: IncomingHttpHeaders,
  digest: Buffer,
): ReceivedItem {
  const { source, body, receivedAt: now } = received;
  const json = readJson(body);
  const envelope = {
    id: uuidv7(now) as EventId,
    event: automationRequest,
    createdAt: new Date(now).toISOString(),
    data: isObject(json) ? json : {},
  };
  const contentType =
    headers["content-type"] ||
    (json === undefined ? "application/octet-stream" : "application/json");
  const encoding = headers["content-encoding"];
  const bodyHeaders = {
    "content-type": contentType,
    ...(encoding ? { "content-encoding": encoding } : {}),
  };
  return {
    kind: "event",
    event: {
      ...received,
      headers: { ...received.headers, ...bodyHeaders },
      envelope,
      subject: { type: "none" },
      request: createHash("sha256").update(`${source}\0`).update(digest).digest("base64url"),
    },
  };
}

/** As the format `standard` does, without the list of one item. */
function readEvent({ fields }: InboundSource, received: Received): ReceivedItem {
  const parsed = parseEnvelope(received.body);
  if (!parsed.ok) return { kind: "quarantined", body: { ...received, error: parsed.error } };
  const { envelope } = parsed;
  return { kind: "event", event: { ...received, envelope, subject: subjectOf(envelope, fields) } };
}

/** An automation may send any body. */
function readJson(body: Buffer): unknown {
  if (!isUtf8(body)) return undefined;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

function readItems(
  { format, accounts }: SeveralSettings,
  { name: source, account, fields }: Pick<InboundSource, "name" | "account" | "fields">,
  received: Received,
): readonly ReceivedItem[] {
  const { body, receivedAt } = received;
  const items = formats[format].items(body, { source, fields, receivedAt });
  let digest: string | undefined;
  const digestOfAll = (): string => (digest ??= hash("sha256", body));
  return items.map(({ body: own, numbers, content }, place): ReceivedItem => {
    const part =
      items.length === 1
        ? {}
        : {
            request: requestText({
              digest: digestOfAll(),
              bytes: body.length,
              items: items.length,
            }),
            place,
          };
    const found = accountOf({ account, accounts }, numbers);
    const item = { ...received, account: found ?? "", format, body: own, ...part };
    if (!content.ok) {
      const id = derivedUuid(
        `wamid-relay invalid\0${source}\0${digestOfAll()}\0${place}`,
      ) as EventId;
      return {
        kind: "quarantined",
        body: { ...item, disposition: "quarantined", id, error: content.error },
      };
    }
    const { envelope, subject } = content;
    if (found !== null) return { kind: "event", event: { ...item, envelope, subject } };
    const error = noAccountText(numbers);
    return {
      kind: "quarantined",
      body: { ...item, disposition: "unassigned", id: envelope.id, error, number: numbers[0] },
    };
  });
}

type Check = (request: VerifiableRequest) => Verified;

/** Throws when a setting is contradictory. */
export function createCheck(
  signature: InboundSource["signature"],
  { header, pathSecrets }: Pick<SeveralSettings, "header" | "pathSecrets"> = {},
): Check {
  const checks: Check[] = [];
  // Last, so that its verdict is the result.
  if (header !== undefined) {
    const name = header.name.toLowerCase();
    checks.push(({ headers }) => fixed(header.values, headers[name]));
  }
  if (pathSecrets !== undefined) checks.push(({ url }) => fixed(pathSecrets, secretInPath(url)));
  if (signature !== undefined) checks.push(createVerifier(signature));
  const [only, ...others] = checks;
  if (only === undefined) throw new Error("a source without any check");
  if (others.length === 0) return only;
  return (request) => {
    let verified = only(request);
    for (const check of others) {
      if (!verified.ok) return verified;
      verified = check(request);
    }
    return verified;
  };
}

function fixed(
  secrets: readonly Secret[],
  given: string | readonly string[] | undefined,
): Verified {
  if (given === undefined || given === "") return { ok: false, reason: "missing-signature" };
  const found = typeof given === "string" ? isAnyOf(secrets, given) : undefined;
  if (found === undefined) return { ok: false, reason: "no-match" };
  return { ok: true, secret: found.fingerprint(), headers: {}, digest: noDigest };
}

const noDigest = Buffer.alloc(0);

function secretInPath(url: string): string {
  const [path = ""] = url.split("?", 1);
  const secret = path.split("/").slice(3).join("/");
  try {
    return decodeURIComponent(secret);
  } catch {
    return secret;
  }
}

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
export type SignatureRefusal =
  | "missing-signature"
  | "malformed-signature"
  | "no-match"
  | "missing-timestamp"
  | "stale-timestamp";

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
  const keys = settings.secrets.map((secret) => ({
    key: signatureKey(scheme, secret.reveal()),
    fingerprint: secret.fingerprint(),
  }));
  /** Never throws. */
  return (request: VerifiableRequest): Verified => {
    const value = readHeader(request.headers, scheme.header);
    if (value === null) return refused("missing-signature");
    const header = readSignatureHeader(scheme, value);
    if (header === null) return refused("malformed-signature");

    const timestamp =
      scheme.timestamp?.in === "header"
        ? readHeader(request.headers, scheme.timestamp.name)
        : header.timestamp;
    if (scheme.timestamp !== null && (timestamp === null || timestamp === ""))
      return refused("missing-timestamp");
    if (
      scheme.toleranceMs !== null &&
      Number.isNaN(timestampMs(timestamp ?? "", scheme.timestampUnit))
    )
      return refused("malformed-signature");
    const id = scheme.idHeader === null ? "" : readHeader(request.headers, scheme.idHeader);
    if (id === null) return refused("missing-signature");

    const signed: SignedRequest = {
      method: request.method,
      url: request.url,
      body: request.body,
      timestamp: timestamp ?? "",
      id,
    };
    for (const { key, fingerprint } of keys) {
      const expected = computeSignature(scheme, key, signed);
      if (!isAmong(header.signatures, expected)) continue;
      // Checked last, so that "stale" implies a valid signature.
      if (isStale(scheme, signed.timestamp, request.nowMs)) return refused("stale-timestamp");
      return {
        ok: true,
        secret: fingerprint,
        headers: headersToKeep(scheme, value, signed),
        digest: expected,
      };
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

function headersToKeep(
  scheme: SignatureScheme,
  value: string,
  signed: SignedRequest,
): Record<string, string> {
  const headers: Record<string, string> = { [scheme.header]: value };
  if (scheme.timestamp?.in === "header") headers[scheme.timestamp.name] = signed.timestamp;
  if (scheme.idHeader !== null) headers[scheme.idHeader] = signed.id;
  return headers;
}

/** Senders write one per secret during a rotation. A header with more is refused as a whole. */
const maxSignatures = 16;

/**
 * As HTTP does. Not a regular expression: `[ \t]+$` takes quadratic time on blanks, and the sender
 * is not verified yet.
 */
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

/**
 * With a separator, other entries are skipped. Without one, a header given twice, which Node joins
 * with ", ", is refused.
 */
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
    const bytes = decodeStrictly(
      prefix === "" ? entry : entry.slice(prefix.length),
      scheme.encoding,
    );
    if (bytes !== null && bytes.length === digestLengths[scheme.algorithm]) return bytes;
  }
  return null;
}
