import { decodeStrictly, type SignatureEncoding } from "../event/signature-bytes.ts";
import { resolveScheme } from "../event/signature-scheme.ts";
import type { SignatureSettings } from "../event/signature-settings.ts";
import { algorithmOfLength, listHeaders, type NamedValue } from "./signature-candidates.ts";
import { type CapturedRequest, searchSignatures } from "./signature-search.ts";

/** Why no combination proves the request, as far as can be told: one line each. Nothing of the secret is in them. */
export function findHints(request: CapturedRequest, secret: string): string[] {
  const hints: string[] = [];
  for (const [change, body] of changedBodies(request.body)) {
    const [settings] = searchSignatures({ ...request, body }, secret);
    if (settings !== undefined)
      hints.push(`it matches once the body ${change} (${inWords(settings)}): the captured bytes are not those that were signed`);
  }
  for (const [change, changed] of changedSecrets(secret)) {
    const [settings] = searchSignatures(request, changed);
    if (settings !== undefined) hints.push(`it matches once the secret ${change} (${inWords(settings)})`);
  }
  if (hints.length > 0) return hints;

  if (request.body.length === 0) hints.push("the body is empty: was all of the request captured?");
  if (secret !== secret.trim()) hints.push("the secret begins or ends with white space");
  if (secret.startsWith("whsec_")) hints.push("the secret begins with whsec_: it was tried as it is, and as base64 after whsec_");
  const described = listHeaders(request.headers).flatMap(describeHeader);
  return described.length > 0
    ? [...hints, ...described]
    : [...hints, "no header looks like a signature: was every header captured, and does the service sign requests to this URL?"];
}

function changedBodies(body: Buffer): [string, Buffer][] {
  // latin1 maps bytes to characters one to one, so that nothing but the change is changed.
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
    // Not JSON: there is nothing to write again.
  }
  return bodies.filter(([, changed]) => !changed.equals(body));
}

function changedSecrets(secret: string): [string, string][] {
  const changes: [string, string][] = [
    ["loses the white space around it", secret.trim()],
    ["ends with a line break", `${secret}\n`],
    ["loses whsec_ and is taken as plain text", secret.replace(/^whsec_/, "")],
    ["loses the quotes around it", secret.replace(/^(["'])(.*)\1$/s, "$2")],
  ];
  return changes.filter(([, changed]) => changed !== secret && changed !== "");
}

function inWords(settings: SignatureSettings): string {
  const { algorithm, encoding, header } = resolveScheme(settings);
  return `${algorithm}, ${encoding}, header ${header}`;
}

const looksSigned = /sign|hmac|hash|digest|sha\d/;

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
  return `${name} holds ${bytes} bytes in ${encoding}: ${bytes === 16 ? "MD5, which is not supported" : "no HMAC of SHA-1, SHA-256, SHA-384 or SHA-512 is that long"}`;
}
