import type { IncomingHttpHeaders } from "node:http";
import {
  decodeStrictly,
  digestLengths,
  type SignatureAlgorithm,
  type SignatureEncoding,
  signatureAlgorithms,
  signatureEncodings,
} from "../../model/signature.ts";
import type { CapturedRequest } from "./verify.ts";

export interface SignatureCandidate {
  readonly header: string;
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
  readonly prefix: string;
  readonly separator: string | null;
  readonly bytes: Buffer;
  /** Timestamps inside the same header, as `t=…`. */
  readonly timestampFields: readonly NamedValue[];
}

export interface NamedValue {
  readonly name: string;
  readonly value: string;
}

/** More headers of a kind than any sender uses. Bounds the search. */
const mostOfAKind = 6;
const separators = [",", " ", ";", "|"];
/** Text before a signature: a word and its delimiter, as in `sha256=`, `v1,` or `HMAC `. */
const wordBefore = /^[A-Za-z][A-Za-z0-9_.-]{0,30}(?:=|,|:| )/;
const fieldWithTime = /^([A-Za-z][A-Za-z0-9_-]{0,31})=([0-9]{9,15})$/;

/** Names in lower case. A header given twice is joined as Node does. */
export function listHeaders(headers: IncomingHttpHeaders): NamedValue[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name: name.toLowerCase(), value: typeof value === "string" ? value : value.join(", ") }],
  );
}

/** As one of the known digests, the plainest way first. */
export function findCandidates({ name, value }: NamedValue): SignatureCandidate[] {
  const whole = readEntry(value).map((read) => ({ ...read, header: name, separator: null, timestampFields: [] }));
  if (whole.length > 0) return whole;
  return separators.filter((separator) => value.includes(separator)).flatMap((separator) => findInEntries(name, value, separator));
}

function findInEntries(header: string, value: string, separator: string): SignatureCandidate[] {
  const entries = value.split(separator).map((entry) => entry.trim());
  // An entry that is neither a signature nor a word with a value rules this separator out.
  if (entries.length > 32 || !entries.every((entry) => wordBefore.test(entry) || readEntry(entry).length > 0)) return [];
  const timestampFields = entries.flatMap(readTimestamp);
  return entries.flatMap(readEntry).map((read) => ({ ...read, header, separator, timestampFields }));
}

function readTimestamp(entry: string): NamedValue[] {
  const match = fieldWithTime.exec(entry);
  return match === null ? [] : [{ name: match[1] as string, value: match[2] as string }];
}

function readEntry(entry: string): Pick<SignatureCandidate, "algorithm" | "encoding" | "prefix" | "bytes">[] {
  const prefixes = ["", wordBefore.exec(entry)?.[0] ?? ""].filter((prefix, index, all) => all.indexOf(prefix) === index);
  // base64 is mostly padded and base64url mostly not, which decides the order where a text could be both.
  const encodings: readonly SignatureEncoding[] = /=$/.test(entry) ? signatureEncodings : ["hex", "base64url", "base64"];
  return prefixes.flatMap((prefix) =>
    encodings.flatMap((encoding) => {
      const bytes = decodeStrictly(entry.slice(prefix.length), encoding);
      const algorithm = bytes === null ? undefined : algorithmOfLength(bytes.length);
      return bytes === null || algorithm === undefined ? [] : [{ algorithm, encoding, prefix, bytes }];
    }),
  );
}

export function algorithmOfLength(bytes: number): SignatureAlgorithm | undefined {
  return signatureAlgorithms.find((algorithm) => digestLengths[algorithm] === bytes);
}

export function findTimestampHeaders(headers: readonly NamedValue[]): NamedValue[] {
  return headers
    .filter(({ name, value }) => /^[0-9]{9,15}$/.test(value) || (/time|date/.test(name) && value !== "" && value.length <= 64))
    .slice(0, mostOfAKind);
}

export function findIdHeaders(headers: readonly NamedValue[]): NamedValue[] {
  return headers
    .filter(({ name, value }) => /(?:^|[-_])(?:u?u?id|nonce|delivery)(?:[-_]|$)/.test(name) && value !== "" && value.length <= 256)
    .slice(0, mostOfAKind);
}

/** A template with the values that fill it. */
export interface SignedContent {
  readonly template: string;
  readonly timestamp: TimestampValue | null;
  readonly id: NamedValue | null;
  readonly publicUrl: string | null;
}

type TimestampValue = NamedValue & { readonly in: "entry" | "header" };

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

/** Each template with each value that could fill it. */
export function listContents(from: {
  request: CapturedRequest;
  candidate: SignatureCandidate;
  timestamps: readonly TimestampValue[];
  ids: readonly NamedValue[];
}): SignedContent[] {
  const timestamps = from.timestamps.filter(({ name }) => name !== from.candidate.header);
  const ids = from.ids.filter(({ name }) => name !== from.candidate.header);
  const urls = listPublicUrls(from.request);
  return templates.flatMap((template) =>
    fill(template.includes("{timestamp}"), timestamps).flatMap((timestamp) =>
      fill(template.includes("{id}"), ids).flatMap((id) =>
        (template.includes("{url}") ? urls : [null]).map((publicUrl) => ({ template, timestamp, id, publicUrl })),
      ),
    ),
  );
}

function fill<T>(needed: boolean, values: readonly T[]): readonly (T | null)[] {
  return needed ? values : [null];
}

/** The origins that a sender may have used in `{url}`; null for the target alone. */
export function listPublicUrls({ url, headers }: CapturedRequest): (string | null)[] {
  const origin = /^https?:\/\/[^/?#]+/i.exec(url)?.[0];
  if (origin !== undefined) return [null, origin];
  const hosts = [headers["x-forwarded-host"], headers.host].filter((host) => typeof host === "string" && /^[A-Za-z0-9.:[\]-]+$/.test(host));
  return [null, ...[...new Set(hosts)].flatMap((host) => [`https://${host}`, `http://${host}`])];
}
