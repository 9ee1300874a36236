import type { IncomingHttpHeaders } from "node:http";
import { Secret } from "../../model/secret.ts";
import {
  computeSignature,
  createHmacKey,
  decodeKey,
  decodeStrictly,
  digestLengths,
  findSchemeFaults,
  presetAxes,
  resolveScheme,
  type SecretEncoding,
  type SignatureAlgorithm,
  type SignatureEncoding,
  type SignatureSettings,
  secretEncodings,
  signatureAlgorithms,
  signatureEncodings,
  signaturePresets,
  timestampMs,
} from "../../model/signature.ts";
import { type CapturedRequest, createVerifier } from "../verify-request.ts";

export interface NamedValue {
  readonly name: string;
  readonly value: string;
}

/** A digest that a header holds. */
interface Candidate {
  readonly settings: {
    readonly header: string;
    readonly algorithm: SignatureAlgorithm;
  } & SignatureSettings;
  readonly bytes: Buffer;
  /** Inside the same header, as `t=…`. */
  readonly timestamps: readonly NamedValue[];
}

/** Fills a place of a template. */
interface Filled {
  readonly settings: SignatureSettings;
  readonly value: string;
}

interface Content {
  readonly settings: SignatureSettings;
  readonly timestamp: string;
  readonly id: string;
}

/** For a signed timestamp, as in the schemes that document one. */
const proposedToleranceMs = 5 * 60_000;
/** More headers of a kind than any sender uses. */
const mostOfAKind = 6;
const separators = [",", " ", ";", "|"];
/** As in `sha256=`, `v1,` or `HMAC `. */
const wordBefore = /^[A-Za-z][A-Za-z0-9_.-]{0,30}(?:=|,|:| )/;
const fieldWithTime = /^([A-Za-z][A-Za-z0-9_-]{0,31})=([0-9]{9,15})$/;

/** Templates seen in the field, the plainest first. */
const templates = [
  "{body}",
  "{timestamp}.{body}",
  "{timestamp}{body}",
  "{timestamp}:{body}",
  "{timestamp}|{body}",
  "{timestamp}\n{body}",
  "{body}{timestamp}",
  "{body}.{timestamp}",
  "{body}:{timestamp}",
  "v0:{timestamp}:{body}",
  "v1:{timestamp}:{body}",
  "{id}.{timestamp}.{body}",
  "{id}{timestamp}{body}",
  "{id}:{timestamp}:{body}",
  "{timestamp}.{id}.{body}",
  "{timestamp}{id}{body}",
  "{timestamp}:{id}:{body}",
  "{id}.{body}",
  "{id}{body}",
  "{id}:{body}",
  "{body}.{id}.{timestamp}",
  "{url}{body}",
  "{body}{url}",
  "{url}.{body}",
  "{method}{url}{body}",
  "{method}{url}{body}{timestamp}",
  "{method}{url}{timestamp}{body}",
  "{timestamp}{method}{url}{body}",
  "{timestamp}.{method}.{url}.{body}",
  "{method}\n{url}\n{body}",
  "{method}\n{url}\n{timestamp}\n{body}",
  "{timestamp}\n{method}\n{url}\n{body}",
];

/**
 * Every way to verify the request, each as the fewest settings, the simplest first. Each is checked
 * with the relay's own verifier.
 */
export function searchSignatures(request: CapturedRequest, secret: string): SignatureSettings[] {
  const headers = listHeaders(request.headers);
  const keys = readKeys(secret);
  const digests = new Map<string, Buffer>();
  const found = new Map<string, SignatureSettings>();
  for (const candidate of headers.flatMap(findCandidates)) {
    for (const content of contentsOf(request, candidate, headers)) {
      for (const [secretEncoding, key] of keys) {
        const settings = { ...candidate.settings, ...content.settings, secretEncoding };
        const { algorithm } = candidate.settings;
        const cacheKey = JSON.stringify([algorithm, secretEncoding, content]);
        const { timestamp, id } = content;
        const digest =
          digests.get(cacheKey) ??
          computeSignature(resolveScheme(settings), createHmacKey(algorithm, key), {
            ...request,
            timestamp,
            id,
          });
        digests.set(cacheKey, digest);
        if (!digest.equals(candidate.bytes)) continue;
        const simplest = simplify(request, secret, settings, timestamp);
        if (simplest !== undefined) found.set(JSON.stringify(simplest), simplest);
      }
    }
  }
  return [...found.values()].sort((a, b) => weight(a) - weight(b));
}

/** Names in lower case. A header given twice is joined as Node does. */
export function listHeaders(headers: IncomingHttpHeaders): NamedValue[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [{ name: name.toLowerCase(), value: typeof value === "string" ? value : value.join(", ") }],
  );
}

/** The plainest way first. */
export function findCandidates({ name, value }: NamedValue): Candidate[] {
  const whole = readEntry(name, value);
  return whole.length > 0
    ? whole
    : separators.flatMap((separator) => findInEntries(name, value, separator));
}

function findInEntries(header: string, value: string, separator: string): Candidate[] {
  const entries = value.split(separator).map((entry) => entry.trim());
  const read = entries.map((entry) => readEntry(header, entry));
  // An entry that is neither a signature nor a word with a value rules this separator out.
  const isList = entries.every(
    (entry, place) => wordBefore.test(entry) || read[place]?.length !== 0,
  );
  if (entries.length === 1 || entries.length > 32 || !isList) return [];
  const timestamps = entries.flatMap((entry) => {
    const [, name, time] = fieldWithTime.exec(entry) ?? [];
    return name === undefined || time === undefined ? [] : [{ name, value: time }];
  });
  return read
    .flat()
    .map(({ settings, bytes }) => ({ settings: { ...settings, separator }, bytes, timestamps }));
}

function readEntry(header: string, entry: string): Candidate[] {
  const prefixes = new Set(["", wordBefore.exec(entry)?.[0] ?? ""]);
  // base64 is mostly padded and base64url mostly not, which decides the order where a text could be
  // both.
  const encodings: readonly SignatureEncoding[] = /=$/.test(entry)
    ? signatureEncodings
    : ["hex", "base64url", "base64"];
  return [...prefixes].flatMap((prefix) =>
    encodings.flatMap((encoding): Candidate[] => {
      const bytes = decodeStrictly(entry.slice(prefix.length), encoding);
      const algorithm = bytes === null ? undefined : algorithmOfLength(bytes.length);
      if (bytes === null || algorithm === undefined) return [];
      return [{ settings: { header, algorithm, encoding, prefix }, bytes, timestamps: [] }];
    }),
  );
}

export function algorithmOfLength(bytes: number): SignatureAlgorithm | undefined {
  return signatureAlgorithms.find((algorithm) => digestLengths[algorithm] === bytes);
}

/** Each template with each value that could fill its places. */
function contentsOf(
  request: CapturedRequest,
  { settings: { header }, timestamps: inside }: Candidate,
  headers: readonly NamedValue[],
): Content[] {
  const others = headers.filter(({ name }) => name !== header);
  const timed = ({ value }: NamedValue, settings: SignatureSettings): Filled => ({
    value,
    settings: { ...settings, ...unitOf(value) },
  });
  const timestamps = [
    ...inside.map((field) => timed(field, { timestampField: field.name })),
    ...timestampHeaders(others).map((field) => timed(field, { timestampHeader: field.name })),
  ];
  const ids = idHeaders(others).map(
    ({ name, value }): Filled => ({ value, settings: { idHeader: name } }),
  );
  const urls = listPublicUrls(request).map(
    (publicUrl): Filled => ({ value: "", settings: publicUrl === null ? {} : { publicUrl } }),
  );
  return templates.flatMap((content) => {
    const fill = (place: string, values: readonly Filled[]) =>
      content.includes(place) ? values : [{ settings: {}, value: "" }];
    return fill("{timestamp}", timestamps).flatMap((timestamp) =>
      fill("{id}", ids).flatMap((id) =>
        fill("{url}", urls).map((url) => ({
          settings: { content, ...timestamp.settings, ...id.settings, ...url.settings },
          timestamp: timestamp.value,
          id: id.value,
        })),
      ),
    );
  });
}

function timestampHeaders(headers: readonly NamedValue[]): NamedValue[] {
  const isTime = ({ name, value }: NamedValue): boolean =>
    /^[0-9]{9,15}$/.test(value) || (/time|date/.test(name) && value !== "" && value.length <= 64);
  return headers.filter(isTime).slice(0, mostOfAKind);
}

function idHeaders(headers: readonly NamedValue[]): NamedValue[] {
  const isId = ({ name, value }: NamedValue): boolean =>
    /(?:^|[-_])(?:u?u?id|nonce|delivery)(?:[-_]|$)/.test(name) &&
    value !== "" &&
    value.length <= 256;
  return headers.filter(isId).slice(0, mostOfAKind);
}

/** The origins that a sender may have used in `{url}`; null for the target alone. */
function listPublicUrls({ url, headers }: CapturedRequest): (string | null)[] {
  const origin = /^https?:\/\/[^/?#]+/i.exec(url)?.[0];
  if (origin !== undefined) return [null, origin];
  const hosts = [headers["x-forwarded-host"], headers.host].filter(
    (host) => typeof host === "string" && /^[A-Za-z0-9.:[\]-]+$/.test(host),
  );
  return [null, ...[...new Set(hosts)].flatMap((host) => [`https://${host}`, `http://${host}`])];
}

/** None for a time such as that of an HTTP date. */
function unitOf(text: string): SignatureSettings {
  const units = text.length >= 12 ? (["ms", "iso"] as const) : (["s"] as const);
  const timestampUnit = units.find((unit) => !Number.isNaN(timestampMs(text, unit)));
  return timestampUnit === undefined ? {} : { timestampUnit, tolerance: proposedToleranceMs };
}

function readKeys(secret: string): [SecretEncoding, Buffer][] {
  return secretEncodings.flatMap((encoding): [SecretEncoding, Buffer][] => {
    // Without its prefix, whsec is the same as base64.
    if (encoding === "whsec" && !secret.startsWith("whsec_")) return [];
    try {
      return [[encoding, decodeKey(secret, encoding)]];
    } catch {
      return [];
    }
  });
}

/** Starting from nothing and from each preset; undefined when none verifies the request. */
function simplify(
  request: CapturedRequest,
  secret: string,
  settings: SignatureSettings,
  timestamp: string,
): SignatureSettings | undefined {
  const { timestampUnit: unit } = settings;
  const nowMs = unit === undefined ? 0 : timestampMs(timestamp, unit);
  const verifies = (tried: SignatureSettings): boolean => {
    if (findSchemeFaults(tried).length > 0) return false;
    try {
      return createVerifier({ ...tried, secrets: [new Secret(secret)] })({ ...request, nowMs }).ok;
    } catch {
      return false;
    }
  };
  const options = [undefined, ...signaturePresets].flatMap((preset) => {
    const start: SignatureSettings = preset === undefined ? settings : { preset, ...settings };
    if (!verifies(start)) return [];
    const least = leaveOut(start, verifies);
    // A preset stands for a family of services. Naming it for a different signed content would
    // mislead.
    if (preset !== undefined && least.content !== undefined) return [];
    const service = /^x-([a-z0-9-]+)-signature$/.exec(least.header ?? "")?.[1];
    if (service === undefined) return [least];
    const { header: _, preset: named, ...others } = least;
    return [{ ...(named === undefined ? {} : { preset: named }), service, ...others }];
  });
  return options.sort((a, b) => weight(a) - weight(b))[0];
}

function leaveOut(
  start: SignatureSettings,
  verifies: (settings: SignatureSettings) => boolean,
): SignatureSettings {
  let least = start;
  for (const key of Object.keys(start) as (keyof SignatureSettings)[]) {
    if (key === "preset") continue;
    const { [key]: _, ...fewer } = least;
    // Every request verifies without a tolerance, so it is left out only when the preset has its
    // own.
    if (
      key === "tolerance" &&
      (fewer.preset === undefined || presetAxes[fewer.preset].tolerance === undefined)
    )
      continue;
    // This signature may have no character that tells base64 from base64url; others will.
    if (verifies(fewer) && resolveScheme(fewer).encoding === start.encoding) least = fewer;
  }
  return least;
}

/**
 * A preset with its own header is preferred; with another header it must replace several settings.
 */
function weight({ tolerance: _, ...settings }: SignatureSettings): number {
  const isOwnHeader = settings.header === undefined && settings.service === undefined;
  return Object.keys(settings).length + (settings.preset === undefined ? 0.5 : isOwnHeader ? 0 : 2);
}
