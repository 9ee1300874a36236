import { Secret } from "../../model/secret.ts";
import { decodeStrictly, resolveScheme, type SignatureEncoding, type SignatureSettings } from "../../model/signature.ts";
import { algorithmOfLength, findCandidates, listHeaders, type NamedValue } from "./candidates.ts";
import { searchSignatures } from "./search.ts";
import { findUnsupported, looksSigned } from "./unsupported.ts";
import { type CapturedRequest, createVerifier } from "./verify.ts";

interface SignatureGuess {
  /** Settings that verify the request, the simplest first; several when the capture fits more than one. */
  readonly matches: readonly SignatureSettings[];
  /** One line each, for the user: why nothing matched, or a note on the first match. Never contains the secret. */
  readonly hints: readonly string[];
  /** False when the request is authenticated in a way that no settings describe. */
  readonly isSupported: boolean;
}

/**
 * Finds out how a captured request was signed, given the secret. Searches header, algorithm, encoding, prefix, separator,
 * secret encoding, signed content, and the places of timestamp and id. With `nowMs` (Unix milliseconds) it also reports
 * whether the relay would refuse the request as stale now. Never throws. Costs some hundred HMACs over the body.
 */
export function guessSignature(request: CapturedRequest & { secret: string; nowMs?: number }): SignatureGuess {
  const matches = searchSignatures(request, request.secret);
  const [first] = matches;
  if (first === undefined) return { matches, ...findHints(request, request.secret) };
  const now =
    request.nowMs === undefined
      ? null
      : createVerifier({ ...first, secrets: [new Secret(request.secret)] })({ ...request, nowMs: request.nowMs });
  const isStale = now !== null && !now.ok && now.reason === "stale-timestamp";
  return {
    matches,
    isSupported: true,
    hints: isStale ? ["the signed timestamp is outside the tolerance now: right for a capture, refused when it is sent again"] : [],
  };
}

/** Prefixes that services document for their secrets. They are not secret. */
const knownPrefixes = ["whsec_", "ats_"];

interface Hints {
  /** Likely reasons why no combination matches, one line each. Never contain any of the secret. */
  readonly hints: string[];
  /** False when the request is authenticated in a way that no settings describe. The secret may be right then. */
  readonly isSupported: boolean;
}

function findHints(request: CapturedRequest, secret: string): Hints {
  const hints: string[] = [];
  for (const [change, body] of changedBodies(request.body)) {
    const [settings] = searchSignatures({ ...request, body }, secret);
    if (settings !== undefined)
      hints.push(`it matches once the body ${change} (${inWords(settings)}): the captured bytes are not those that were signed`);
  }
  for (const [change, changed] of changedSecrets(secret)) {
    const [settings] = searchSignatures(request, changed);
    if (settings !== undefined) hints.push(`it matches once the secret ${change} (${inWords(settings)}): change it in the settings too`);
  }
  if (hints.length > 0) return { hints, isSupported: true };
  const unsupported = findUnsupported(request, secret);
  if (unsupported.some(({ isCertain }) => isCertain)) {
    return { hints: unsupported.filter(({ isCertain }) => isCertain).map(({ text }) => text), isSupported: false };
  }
  const others = listHeaders(request.headers).filter(({ name }) => !unsupported.some(({ header }) => header === name));
  const isSigned = others.some((header) => looksSigned.test(header.name) && findCandidates(header).length > 0);
  // Known by their header names only: a header that may be a supported signature takes precedence.
  if (unsupported.length > 0 && !isSigned) return { hints: unsupported.map(({ text }) => text), isSupported: false };

  if (request.body.length === 0) hints.push("the body is empty: was all of the request captured?");
  if (secret !== secret.trim()) hints.push("the secret begins or ends with white space");
  if (secret.startsWith("whsec_"))
    hints.push("the secret begins with whsec_: it was tried as it is, and as base64, hex and text after whsec_");
  const described = [...others.flatMap(describeHeader), ...unsupported.map(({ text }) => text)];
  const none = "no header looks like a signature: was every header captured, and does the service sign requests to this URL?";
  return { hints: [...hints, ...(described.length > 0 ? described : [none])], isSupported: true };
}

function changedBodies(body: Buffer): [string, Buffer][] {
  // latin1 maps bytes to characters one to one, so all other bytes stay the same.
  const text = body.toString("latin1");
  const changes: [string, string][] = [
    ["loses its last line break", text.replace(/\r?\n$/, "")],
    ["ends with a line break", `${text}\n`],
    ["has its CRLF turned into LF", text.replaceAll("\r\n", "\n")],
    ["has its LF turned into CRLF", text.replace(/\r?\n/g, "\r\n")],
    ["loses its byte order mark", text.replace(/^\xef\xbb\xbf/, "")],
  ];
  const bodies = changes.map(([change, changed]): [string, Buffer] => [change, Buffer.from(changed, "latin1")]);
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    bodies.push(["is parsed and written again as JSON", Buffer.from(JSON.stringify(value))]);
    bodies.push(["is parsed and written again as JSON with an indent of two", Buffer.from(JSON.stringify(value, null, 2))]);
  } catch {
    // Not JSON.
  }
  return bodies.filter(([, changed]) => !changed.equals(body));
}

function changedSecrets(secret: string): [string, string][] {
  const changes: [string, string][] = [
    ["loses the white space around it", secret.trim()],
    ["ends with a line break", `${secret}\n`],
    ...withoutPrefix(secret),
    ...knownPrefixes
      .filter((prefix) => !secret.startsWith(prefix))
      .map((prefix): [string, string] => [`begins with ${prefix}`, prefix + secret]),
    ["loses the quotes around it", secret.replace(/^(["'])(.*)\1$/s, "$2")],
  ];
  return changes.filter(([, changed]) => changed !== secret && changed !== "");
}

/** Some services put a prefix such as `sk_live_` before the key. Only known prefixes are named: others may be part of the secret. */
function withoutPrefix(secret: string): [string, string][] {
  const known = knownPrefixes.find((prefix) => secret.startsWith(prefix));
  if (known !== undefined) return [[`loses ${known}`, secret.slice(known.length)]];
  const ends = [...secret.slice(0, 32).matchAll(/[_.:-]/g)].slice(0, 3).map(({ index }) => index + 1);
  return ends.map((end) => [`loses the ${end} characters before its ${ordinals[ends.indexOf(end)]} separator`, secret.slice(end)]);
}

const ordinals = ["first", "second", "third"];

function inWords(settings: SignatureSettings): string {
  const { algorithm, encoding, header, secretEncoding } = resolveScheme(settings);
  return `${algorithm}, ${encoding}, header ${header}${secretEncoding === "utf8" ? "" : `, secretEncoding ${secretEncoding}`}`;
}

function describeHeader({ name, value }: NamedValue): string[] {
  if (!looksSigned.test(name)) return [];
  const entries = [value, ...value.split(/[,; |]/)].flatMap((entry) => [
    entry.trim(),
    entry.trim().replace(/^[A-Za-z][A-Za-z0-9_.-]{0,30}[=:]/, ""),
  ]);
  for (const entry of entries) {
    const encoding = (["hex", "base64", "base64url"] satisfies SignatureEncoding[]).find(
      (tried) => (decodeStrictly(entry, tried)?.length ?? 0) >= 16,
    );
    if (encoding !== undefined) return [describeLength(name, encoding, decodeStrictly(entry, encoding)?.length ?? 0)];
  }
  return [`${name} is there, but holds neither hex nor base64 of a signature's length`];
}

function describeLength(name: string, encoding: SignatureEncoding, bytes: number): string {
  const algorithm = algorithmOfLength(bytes);
  if (algorithm !== undefined) {
    return `${name} holds ${bytes} bytes in ${encoding}, as HMAC-${algorithm.toUpperCase()} gives: so the secret, the body or what else is signed (URL, timestamp) is not as sent`;
  }
  return `${name} holds ${bytes} bytes in ${encoding}: no HMAC of SHA-1, SHA-256, SHA-384 or SHA-512 is that long`;
}
