import { otherEnvelope } from "../../model/envelope.ts";
import { Secret } from "../../model/secret.ts";
import {
  decodeStrictly,
  resolveScheme,
  type SignatureEncoding,
  type SignatureSettings,
} from "../../model/signature.ts";
import { type CapturedRequest, createVerifier } from "../verify-request.ts";
import {
  algorithmOfLength,
  findCandidates,
  listHeaders,
  type NamedValue,
  searchSignatures,
} from "./search.ts";

interface SignatureGuess {
  /** The simplest first. */
  readonly matches: readonly SignatureSettings[];
  /** One line each, without the secret. */
  readonly hints: readonly string[];
  /** False: no settings describe how the request is authenticated. The secret may be right then. */
  readonly isSupported: boolean;
}

/**
 * Never throws. Costs some hundred HMACs over the body. With `nowMs`, a hint says whether the
 * request is stale now.
 */
export function guessSignature(
  request: CapturedRequest & { secret: string; nowMs?: number },
): SignatureGuess {
  const matches = searchSignatures(request, request.secret);
  const [first] = matches;
  if (first === undefined) return { matches, ...findHints(request, request.secret) };
  const now =
    request.nowMs === undefined
      ? null
      : createVerifier({ ...first, secrets: [new Secret(request.secret)] })({
          ...request,
          nowMs: request.nowMs,
        });
  const isStale = now !== null && !now.ok && now.reason === "stale-timestamp";
  return {
    matches,
    isSupported: true,
    hints: isStale
      ? [
          "the signed timestamp is outside the tolerance now: right for a capture, refused when it is sent again",
        ]
      : [],
  };
}

/** As services document them. They are not secret. */
const knownPrefixes = ["whsec_", "ats_"];

function findHints(request: CapturedRequest, secret: string): Omit<SignatureGuess, "matches"> {
  const hints: string[] = [];
  for (const [change, changed] of changedSecrets(secret)) {
    const [settings] = searchSignatures(request, changed);
    if (settings !== undefined)
      hints.push(
        `it matches once the secret ${change} (${inWords(settings)}): change it in the settings too`,
      );
  }
  if (hints.length > 0) return { hints, isSupported: true };
  const unsupported = findUnsupported(request, secret);
  if (unsupported.some(({ isCertain }) => isCertain)) {
    return {
      hints: unsupported.filter(({ isCertain }) => isCertain).map(({ text }) => text),
      isSupported: false,
    };
  }
  const others = listHeaders(request.headers).filter(
    ({ name }) => !unsupported.some(({ header }) => header === name),
  );
  const isSigned = others.some(
    (header) => looksSigned.test(header.name) && findCandidates(header).length > 0,
  );
  // Known by their header names only: a header that may be a supported signature takes precedence.
  if (unsupported.length > 0 && !isSigned)
    return { hints: unsupported.map(({ text }) => text), isSupported: false };

  if (request.body.length === 0) hints.push("the body is empty: was all of the request captured?");
  if (secret !== secret.trim()) hints.push("the secret begins or ends with white space");
  if (secret.startsWith("whsec_"))
    hints.push(
      "the secret begins with whsec_: it was tried as it is, and as base64, hex and text after whsec_",
    );
  const described = [...others.flatMap(describeHeader), ...unsupported.map(({ text }) => text)];
  const none =
    "no header looks like a signature: was every header captured, and does the service sign requests to this URL?";
  return { hints: [...hints, ...(described.length > 0 ? described : [none])], isSupported: true };
}

function changedSecrets(secret: string): [string, string][] {
  const changes: [string, string][] = [
    ["loses the white space around it", secret.trim()],
    ["ends with a line break", `${secret}\n`],
    ...knownPrefixes.map((prefix): [string, string] =>
      secret.startsWith(prefix)
        ? [`loses ${prefix}`, secret.slice(prefix.length)]
        : [`begins with ${prefix}`, prefix + secret],
    ),
    ["loses the quotes around it", secret.replace(/^(["'])(.*)\1$/s, "$2")],
  ];
  return changes.filter(([, changed]) => changed !== secret && changed !== "");
}

function inWords(settings: SignatureSettings): string {
  const { algorithm, encoding, header, secretEncoding } = resolveScheme(settings);
  return `${algorithm}, ${encoding}, header ${header}${secretEncoding === "utf8" ? "" : `, secretEncoding ${secretEncoding}`}`;
}

function describeHeader({ name, value }: NamedValue): string[] {
  if (!looksSigned.test(name)) return [];
  const entries = [value, ...value.split(/[,; |]/)].map((entry) => entry.trim());
  for (const entry of entries.flatMap((whole) => [
    whole,
    whole.replace(/^[A-Za-z][A-Za-z0-9_.-]{0,30}[=:]/, ""),
  ])) {
    for (const encoding of ["hex", "base64", "base64url"] satisfies SignatureEncoding[]) {
      const { length = 0 } = decodeStrictly(entry, encoding) ?? {};
      if (length >= 16) return [`${name} holds ${length} bytes in ${encoding}${whyWrong(length)}`];
    }
  }
  return [`${name} is there, but holds neither hex nor base64 of a signature's length`];
}

function whyWrong(bytes: number): string {
  const algorithm = algorithmOfLength(bytes);
  return algorithm === undefined
    ? ": no HMAC of SHA-1, SHA-256, SHA-384 or SHA-512 is that long, and MD5 and truncated digests are not supported"
    : `, as HMAC-${algorithm.toUpperCase()} gives: so the secret, the body or what else is signed (URL, timestamp) is not as sent`;
}

const looksSigned = /sign|hmac|hash|digest|sha\d/;

interface Unsupported {
  readonly header: string;
  /** Without the secret and the header's value. */
  readonly text: string;
  /** The secret matches. */
  readonly isCertain: boolean;
}

const keyPair = "made with a key pair and not with a secret. It is not supported";

const token = "not a signature. It is not supported, and it is not this secret";

const unsupportedHeaders: readonly {
  readonly name?: RegExp;
  readonly value?: RegExp;
  readonly text: string;
}[] = [
  { name: /^x-gitlab-token$/, text: `is a static token of GitLab, ${token}` },
  { name: /^x-telegram-bot-api-secret-token$/, text: `is a static token of Telegram, ${token}` },
  {
    name: /^x-twilio-signature$/,
    text: "is Twilio's, which signs the URL and the form parameters. It is not supported",
  },
  { name: /^paypal-transmission-sig$/, text: `is PayPal's signature, ${keyPair}` },
  { name: /ed25519/, text: `is an Ed25519 signature, ${keyPair}` },
  {
    value: /^(?!.*(?:^| )v1,).*(?:^| )v1a,/s,
    text: "holds an Ed25519 signature (v1a of Standard Webhooks), made with a key pair. It is not supported; ask the sender for v1, with a secret",
  },
  {
    value: /^(?:[A-Za-z]+ )?eyJ[\w-]+\.[\w-]+\.[\w-]*$/,
    text: "is a JSON Web Token. It is not supported",
  },
];

function findUnsupported({ headers, body }: CapturedRequest, secret: string): Unsupported[] {
  const inHeaders = listHeaders(headers).flatMap(({ name, value }): Unsupported[] => {
    if (isSecret(value, secret)) {
      const text = `${name} holds the secret itself: a static token, not a signature. It is not supported`;
      return [{ header: name, text, isCertain: true }];
    }
    const known = unsupportedHeaders.find(
      (one) => one.name?.test(name) !== false && one.value?.test(value) !== false,
    );
    return known === undefined
      ? []
      : [{ header: name, text: `${name} ${known.text}`, isCertain: false }];
  });
  return [...inHeaders, ...inBody(body)];
}

/** Also after a word, and as a part of basic credentials. */
function isSecret(value: string, secret: string): boolean {
  const [, credentials = ""] = /^[A-Za-z]+ +(.+)$/.exec(value) ?? [];
  const basic = Buffer.from(credentials, "base64").toString("utf8").split(":");
  return [value, credentials, ...basic].some(
    (text) => text !== "" && text.trim() === secret.trim(),
  );
}

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
    {
      header: "",
      text: `the body is that of ${sender}, which signs ${how}, inside the body. It is not supported`,
      isCertain: false,
    },
  ];
}
