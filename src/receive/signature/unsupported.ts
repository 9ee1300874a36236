import { createHash, createHmac } from "node:crypto";
import { otherEnvelope } from "../../model/other-envelopes.ts";
import { createHmacKey, digestLengths, type HmacKey, signatureAlgorithms } from "../../model/signature.ts";
import {
  findIdHeaders,
  findTimestampHeaders,
  type LooseBytes,
  listHeaders,
  listPublicUrls,
  type NamedValue,
  readLoosely,
} from "./candidates.ts";
import { findSignedContent } from "./search.ts";
import type { CapturedRequest } from "./verify.ts";

/** A way to authenticate a request that no settings describe. */
interface Unsupported {
  readonly header: string;
  /** One line for the user, without the secret and without the header's value. */
  readonly text: string;
  /** The secret matches, so it is not the problem. */
  readonly isCertain: boolean;
}

type Look = Omit<Unsupported, "header">;

/** Checks of one header, the most certain first. The first match counts. */
const looks: readonly ((header: NamedValue, request: CapturedRequest, secret: string) => Look | null)[] = [
  staticToken,
  twilio,
  publicKey,
  otherDigest,
  unknownDigest,
];

/** The headers that authenticate the request in a way the relay does not support. */
export function findUnsupported(request: CapturedRequest, secret: string): Unsupported[] {
  const inHeaders = listHeaders(request.headers).flatMap((header) => {
    for (const look of looks) {
      const found = look(header, request, secret);
      if (found !== null) return [{ header: header.name, text: `${header.name} ${found.text}`, isCertain: found.isCertain }];
    }
    return [];
  });
  return [...inHeaders, ...inBody(request.body)];
}

/** How senders sign that write the signature into the body. */
const signedInside: Readonly<Record<string, string>> = {
  "AWS SNS": "with a key pair",
  Mailgun: "a token, and not the body",
  Adyen: "some fields of the body",
};

function inBody(body: Buffer): Unsupported[] {
  let sender: string | undefined;
  try {
    sender = otherEnvelope(JSON.parse(body.toString("utf8")));
  } catch {
    return [];
  }
  const how = signedInside[sender ?? ""];
  if (how === undefined) return [];
  return [
    { header: "", text: `the body is that of ${sender}, which signs ${how}, inside the body. It is not supported`, isCertain: false },
  ];
}

const tokenHeaders: Readonly<Record<string, string>> = {
  "x-gitlab-token": "GitLab",
  "x-telegram-bot-api-secret-token": "Telegram",
};

function staticToken({ name, value }: NamedValue, _request: CapturedRequest, secret: string): Look | null {
  const service = tokenHeaders[name];
  const [, credentials = ""] = /^[A-Za-z]+ +(.+)$/.exec(value) ?? [];
  const basic = Buffer.from(credentials, "base64").toString("utf8").split(":");
  const holds = [value, credentials, ...basic].some((text) => text !== "" && text.trim() === secret.trim());
  if (holds)
    return {
      text: `holds the secret itself: a static token${service === undefined ? "" : ` of ${service}`}, not a signature. It is not supported`,
      isCertain: true,
    };
  if (service === undefined) return null;
  return { text: `is a static token of ${service}, not a signature. It is not supported, and it is not this secret`, isCertain: false };
}

/** HMAC-SHA1 over the URL and the sorted form parameters. Of another body only a hash in the URL is signed. */
function twilio({ name, value }: NamedValue, request: CapturedRequest, secret: string): Look | null {
  if (name !== "x-twilio-signature") return null;
  const way = request.url.includes("bodySHA256=") ? "the URL with bodySHA256" : "the URL and the sorted form parameters";
  const form = way.includes("form") ? new URLSearchParams(request.body.toString("utf8")) : new URLSearchParams();
  form.sort();
  const fields = [...form].map(([key, text]) => key + text).join("");
  const target = request.url.replace(/^https?:\/\/[^/?#]*/i, "");
  const isRight = listPublicUrls(request).some(
    (origin) =>
      origin !== null &&
      createHmac("sha1", secret)
        .update(origin + target + fields)
        .digest("base64") === value,
  );
  return {
    text: `is Twilio's: it signs ${way}, which is not supported. ${isRight ? "The secret is right" : "With --url as Twilio has it, verify can check the secret"}`,
    isCertain: isRight,
  };
}

function publicKey(header: NamedValue): Look | null {
  const { name, value } = header;
  if (name === "paypal-transmission-sig")
    return { text: "is PayPal's signature, made with a key pair and not with a secret. It is not supported", isCertain: false };
  if (/ed25519/.test(name))
    return { text: "is an Ed25519 signature, made with a key pair and not with a secret. It is not supported", isCertain: false };
  if (/(?:^| )v1a,/.test(value) && !/(?:^| )v1,/.test(value)) {
    return {
      text: "holds an Ed25519 signature (v1a of Standard Webhooks), made with a key pair. It is not supported; ask the sender for v1, with a secret",
      isCertain: false,
    };
  }
  if (/^(?:[A-Za-z]+ )?eyJ[\w-]+\.[\w-]+\.[\w-]*$/.test(value))
    return { text: "is a JSON Web Token. It is not supported", isCertain: false };
  if (!looksSigned.test(name)) return null;
  const found = readLoosely(header);
  if (found.some(({ bytes }) => [256, 384, 512].includes(bytes.length))) {
    return { text: "is as long as an RSA signature, made with a key pair and not with a secret. It is not supported", isCertain: false };
  }
  if (found.some(({ bytes }) => bytes.length >= 68 && bytes.length <= 72 && bytes[0] === 0x30 && bytes[1] === bytes.length - 2)) {
    return { text: "is an ECDSA signature, made with a key pair and not with a secret. It is not supported", isCertain: false };
  }
  return null;
}

interface Maker {
  readonly name: string;
  readonly createKey: (key: Buffer) => HmacKey;
}

const isSupported = (name: string): boolean => name.startsWith("HMAC-SHA");
const makers: readonly Maker[] = [
  ...signatureAlgorithms.map((algorithm) => ({
    name: `HMAC-${algorithm.toUpperCase()}`,
    createKey: (key: Buffer) => createHmacKey(algorithm, key),
  })),
  { name: "HMAC-MD5", createKey: (key) => ({ digest: (parts) => createHmac("md5", key).update(joined(parts)).digest() }) },
  ...["md5", ...signatureAlgorithms].flatMap((algorithm): Maker[] => {
    const hash = (...parts: Buffer[]) => createHash(algorithm).update(Buffer.concat(parts)).digest();
    const name = algorithm.toUpperCase();
    return [
      {
        name: `${name} of the secret and the content, not an HMAC,`,
        createKey: (key) => ({ digest: (parts) => hash(key, joined(parts)) }),
      },
      {
        name: `${name} of the content and the secret, not an HMAC,`,
        createKey: (key) => ({ digest: (parts) => hash(joined(parts), key) }),
      },
    ];
  }),
];

/** Text parts have one character per byte. */
const joined = (parts: readonly (Buffer | string)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : part)));

/** A digest made with this secret in a way that no settings describe, whole or truncated. */
function otherDigest(header: NamedValue, request: CapturedRequest, secret: string): Look | null {
  // Costs thousands of digests over the body, so other headers are skipped.
  if (!/^x-|auth/.test(header.name) && !looksSigned.test(header.name)) return null;
  if (findIdHeaders([header]).length > 0 || findTimestampHeaders([header]).length > 0) return null;
  for (const { bytes, encoding, timestampFields } of readLoosely(header).filter(isDigestLong)) {
    const candidate = { header: header.name, algorithm: "sha256", encoding, prefix: "", separator: ",", bytes, timestampFields } as const;
    for (const { name, createKey } of makers) {
      let length = 0;
      const content = findSignedContent(request, secret, {
        candidate,
        createKey,
        matches(digest) {
          length = digest.length;
          // A whole supported digest was found by the search already.
          return (
            bytes.length <= length && digest.subarray(0, bytes.length).equals(bytes) && !(isSupported(name) && bytes.length === length)
          );
        },
      });
      if (content === null) continue;
      const part = bytes.length < length ? `the first ${bytes.length} of ${length} bytes of ` : "";
      return {
        text: `holds ${part}${name} over ${JSON.stringify(content)}, made with this secret. ${part === "" ? "It" : "A truncated digest"} is not supported`,
        isCertain: true,
      };
    }
  }
  return null;
}

/** A header that looks signed and has a length that no supported digest has. */
function unknownDigest(header: NamedValue): Look | null {
  if (!looksSigned.test(header.name)) return null;
  const lengths = readLoosely(header).filter(isDigestLong);
  const [found] = lengths;
  if (found === undefined || lengths.some(({ bytes }) => Object.values(digestLengths).includes(bytes.length))) return null;
  const { bytes, encoding } = found;
  const what =
    bytes.length === 16
      ? "MD5 or a truncated digest, neither of which is supported"
      : "no HMAC of SHA-1, SHA-256, SHA-384 or SHA-512 is that long. Truncated digests are not supported";
  return { text: `holds ${bytes.length} bytes in ${encoding}: ${what}`, isCertain: false };
}

const isDigestLong = ({ bytes }: LooseBytes): boolean => bytes.length <= 64;

export const looksSigned = /sign|hmac|hash|digest|sha\d/;
