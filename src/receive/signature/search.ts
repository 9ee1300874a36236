import { Secret } from "../../model/secret.ts";
import {
  computeSignature,
  createHmacKey,
  decodeKey,
  findSchemeFaults,
  presetAxes,
  resolveScheme,
  type SecretEncoding,
  type SignatureSettings,
  secretEncodings,
  signaturePresets,
  timestampMs,
} from "../../model/signature.ts";
import {
  findCandidates,
  findIdHeaders,
  findTimestampHeaders,
  listContents,
  listHeaders,
  type NamedValue,
  type SignatureCandidate,
  type SignedContent,
} from "./candidates.ts";
import { type CapturedRequest, createVerifier } from "./verify.ts";

/** The tolerance proposed for a signed timestamp. The schemes that document one use this value. */
const proposedToleranceMs = 5 * 60_000;

/**
 * Every combination of axes that verifies the request, each as the fewest settings that describe it, the simplest first.
 * Each is checked with the verifier that the relay runs.
 */
export function searchSignatures(request: CapturedRequest, secret: string): SignatureSettings[] {
  const headers = listHeaders(request.headers);
  const candidates = headers.flatMap(findCandidates);
  const keys = readKeys(secret);
  const found: SignatureSettings[] = [];
  const digests = new Map<string, Buffer>();
  for (const candidate of candidates) {
    for (const content of contentsFor(request, candidate, headers)) {
      for (const [secretEncoding, key] of keys) {
        const settings = describe(candidate, content, secretEncoding);
        const cacheKey = JSON.stringify([candidate.algorithm, secretEncoding, content]);
        const hmacKey = createHmacKey(candidate.algorithm, key);
        const digest = digests.get(cacheKey) ?? computeSignature(resolveScheme(settings), hmacKey, signedParts(request, content));
        digests.set(cacheKey, digest);
        if (digest.equals(candidate.bytes)) found.push(...simplify(request, secret, settings, content));
      }
    }
  }
  return rank(found);
}

function contentsFor(request: CapturedRequest, candidate: SignatureCandidate, headers: readonly NamedValue[]): SignedContent[] {
  const timestamps = [
    ...candidate.timestampFields.map((field) => ({ ...field, in: "entry" as const })),
    ...findTimestampHeaders(headers).map((header) => ({ ...header, in: "header" as const })),
  ];
  return listContents({ request, candidate, timestamps, ids: findIdHeaders(headers) });
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

function describe(candidate: SignatureCandidate, content: SignedContent, secretEncoding: SecretEncoding): SignatureSettings {
  const { header, algorithm, encoding, prefix, separator } = candidate;
  const { timestamp, id, publicUrl } = content;
  const unit = timestamp === null ? undefined : unitOf(timestamp.value);
  return {
    header,
    algorithm,
    encoding,
    prefix,
    ...(separator === null ? {} : { separator }),
    content: content.template,
    ...(timestamp?.in === "header" ? { timestampHeader: timestamp.name } : {}),
    ...(timestamp?.in === "entry" ? { timestampField: timestamp.name } : {}),
    ...(unit === undefined ? {} : { timestampUnit: unit, tolerance: proposedToleranceMs }),
    ...(id === null ? {} : { idHeader: id.name }),
    ...(publicUrl === null ? {} : { publicUrl }),
    secretEncoding,
  };
}

/** Undefined for a time that has none, such as that of an HTTP date. */
function unitOf(text: string): SignatureSettings["timestampUnit"] {
  const units = text.length >= 12 ? (["ms", "iso"] as const) : (["s"] as const);
  return units.find((unit) => !Number.isNaN(timestampMs(text, unit)));
}

function signedParts(request: CapturedRequest, content: SignedContent) {
  return { ...request, timestamp: content.timestamp?.value ?? "", id: content.id?.value ?? "" };
}

/** Starting from nothing and from each preset; empty when none verify the request. */
function simplify(request: CapturedRequest, secret: string, settings: SignatureSettings, content: SignedContent): SignatureSettings[] {
  const { timestampUnit: unit } = settings;
  const nowMs = unit === undefined ? 0 : timestampMs(content.timestamp?.value ?? "", unit);
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
    // A preset stands for a family of services. Naming it for a different signed content would mislead.
    if (preset !== undefined && least.content !== undefined) return [];
    const service = /^x-([a-z0-9-]+)-signature$/.exec(least.header ?? "")?.[1];
    if (service === undefined) return [least];
    const { header: _, preset: named, ...others } = least;
    return [{ ...(named === undefined ? {} : { preset: named }), service, ...others }];
  });
  return options.sort((a, b) => weight(a) - weight(b)).slice(0, 1);
}

function leaveOut(start: SignatureSettings, verifies: (settings: SignatureSettings) => boolean): SignatureSettings {
  let least = start;
  for (const key of Object.keys(start) as (keyof SignatureSettings)[]) {
    if (key === "preset") continue;
    const { [key]: _, ...fewer } = least;
    // Every request verifies without a tolerance, so it is left out only when the preset has its own.
    if (key === "tolerance" && (fewer.preset === undefined || presetAxes[fewer.preset].tolerance === undefined)) continue;
    // This signature may have no character that tells base64 from base64url; others will.
    if (verifies(fewer) && resolveScheme(fewer).encoding === start.encoding) least = fewer;
  }
  return least;
}

/**
 * Fewer settings are simpler. A preset with its own header is preferred; with another header it must replace several
 * settings.
 */
function weight({ tolerance: _, ...settings }: SignatureSettings): number {
  const isOwnHeader = settings.header === undefined && settings.service === undefined;
  return Object.keys(settings).length + (settings.preset === undefined ? 0.5 : isOwnHeader ? 0 : 2);
}

function rank(found: readonly SignatureSettings[]): SignatureSettings[] {
  const distinct = new Map(found.map((settings) => [JSON.stringify(settings), settings]));
  return [...distinct.values()].sort((a, b) => weight(a) - weight(b));
}
