import { readPostgresUrl } from "./postgres.ts";
import { Secret } from "./secret.ts";
import { runSteps, type Steps } from "./steps.ts";

/**
 * Removes the secrets of the settings from text, for example from the answer of a destination that
 * echoes its request.
 */
export interface Redactor {
  text(text: string): string;
  /** Bytes from outside. `more`: values that are secret in this answer only. */
  bytes(bytes: Buffer, more?: readonly string[]): Buffer;
  /**
   * A log line. Keeps secrets under 8 characters and headers such as `x-tenant`, which may be words
   * of the line itself.
   */
  line(line: string): string;
  /**
   * Replaces the settings. Redacts the previous secrets until the next reload, because attempts in
   * flight still send them.
   */
  reload(settings: unknown): Steps<void>;
}

export const redacted = "[secret]";

/** Shorter values are ordinary words and numbers, such as `1` or `on`. */
const shortest = 4;
/** Shorter values are found only as whole words, and not in base64. */
const shortestAnywhere = 8;

/** Names of headers and of query parameters whose values are secret. */
export const secretName =
  /auth|token|secret|passw|signature|credential|cookie|^(?:x[-_])?(?:api[-_]?)?key$/i;
const openHeaders = new Set([
  "accept",
  "accept-charset",
  "accept-encoding",
  "accept-language",
  "cache-control",
  "user-agent",
]);
export const urlKeys: ReadonlySet<string> = new Set(["url", "baseUrl", "publicUrl"]);

export function createRedactor(settings: unknown): Redactor {
  let current = settings;
  let search = runSteps(creating(secretsIn(settings)));

  return {
    text: (text) => deliverySignatures(search.answer(text)),
    bytes(bytes, more = []) {
      if (bytes.length < shortest) return bytes;
      // One character per byte, so that binary parts stay unchanged.
      const before = bytes.toString("latin1");
      let after = deliverySignatures(search.answer(before));
      for (const value of more)
        if (value.length >= shortestAnywhere)
          after = after.replace(new RegExp(anySpelling(value), "g"), redacted);
      return after === before ? bytes : Buffer.from(after, "latin1");
    },
    line: (line) => search.line(line),
    *reload(next) {
      search = yield* creating(secretsIn([next, current]));
      current = next;
    },
  };
}

/**
 * Secret texts, each with whether it is redacted in log lines too. The longest first, so that a
 * header's value is replaced before the token in it.
 */
type Secrets = ReadonlyMap<string, boolean>;

function secretsIn(settings: unknown): Secrets {
  const found = new Map<string, boolean>();
  const add = (values: readonly string[], isForLines = true): void => {
    for (const value of values) {
      if (value.length < shortest) continue;
      found.set(
        value,
        found.get(value) === true || (isForLines && value.length >= shortestAnywhere),
      );
    }
  };
  const walk = (value: unknown, key: string, inHeaders: boolean): void => {
    if (value instanceof Secret) {
      const text = value.reveal();
      if (!inHeaders) add([text, ...partsOfSecret(text)]);
      else if (!openHeaders.has(key.toLowerCase()))
        add([text, ...credentialsOf(text)], secretName.test(key));
    } else if (typeof value === "string") {
      if (urlKeys.has(key)) add(partsOfUrl(value));
    } else if (typeof value === "object" && value !== null) {
      for (const [name, item] of Object.entries(value)) walk(item, name, key === "headers");
    }
  };
  walk(settings, "", false);
  return new Map([...found].toSorted(([a], [b]) => b.length - a.length));
}

function partsOfSecret(text: string): string[] {
  if (text.startsWith("whsec_")) return [text.slice("whsec_".length)];
  return text.includes("://") ? [...partsOfUrl(text), ...longSegments(text)] : [];
}

/** The password of a URL, and query values such as that of `token=`. */
function partsOfUrl(text: string): string[] {
  const postgres = readPostgresUrl(text);
  if (postgres !== null) return [postgres.password, encodeURIComponent(postgres.password)];
  const url = URL.parse(text);
  if (url === null) return [];
  const named = [...url.searchParams]
    .filter(([name]) => secretName.test(name))
    .map(([, value]) => value);
  return [url.password, decoded(url.password), ...named];
}

/** An alert URL often has its token in the path. */
function longSegments(text: string): string[] {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return [];
  return [...url.pathname.split("/"), ...url.searchParams.values()].filter(
    (part) => part.length >= shortestAnywhere,
  );
}

/** The credentials after a scheme such as `Bearer`; of `Basic`, the password too. */
function credentialsOf(header: string): string[] {
  const match = /^([A-Za-z][\w-]*)\s+(\S.*)$/.exec(header);
  const [, scheme = "", credentials = ""] = match ?? [];
  if (scheme.toLowerCase() !== "basic") return [credentials];
  const pair = Buffer.from(credentials, "base64").toString("utf8");
  return [credentials, pair, pair.slice(pair.indexOf(":") + 1)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const anchorLength = 4;
const tableBits = 18;

interface Pattern {
  /** Patterns are replaced in this order. */
  readonly place: number;
  readonly isForLines: boolean;
  readonly source: () => string;
  /**
   * Compiled at first use: most secrets never occur in a text, and a reload must not wait for
   * thousands of patterns.
   */
  compiled?: RegExp;
}

/**
 * Most texts have no secret, so a table is searched for the hash of each four characters, and the
 * regular expression of a secret runs only when its hash occurs.
 */
function* creating(secrets: Secrets) {
  /** Texts of which an answer may end with a part. */
  const spellings: string[] = [];
  const anchored = new Map<number, Pattern[]>();
  const unanchored: Pattern[] = [];
  const table = new Uint8Array(2 ** tableBits);
  let places = 0;

  function add(text: string, isForLines: boolean, source: () => string): void {
    const pattern: Pattern = { place: places++, isForLines, source };
    // The last four characters, because many secrets begin alike.
    const anchor = /.*([A-Za-z0-9]{4})/s.exec(text)?.[1];
    if (anchor === undefined) return void unanchored.push(pattern);
    const hash = hashOf(anchor);
    table[hash] = 1;
    anchored.set(hash, [...(anchored.get(hash) ?? []), pattern]);
  }

  for (const [secret, isForLines] of secrets) {
    if (secret.length < shortestAnywhere) {
      add(secret, isForLines, () => `(?<![A-Za-z0-9])${anySpelling(secret)}(?![A-Za-z0-9])`);
    } else {
      add(secret, isForLines, () => anySpelling(secret));
      // Base64 may encode it as written in JSON or in a URL.
      const written = [
        ...new Set([
          secret,
          JSON.stringify(secret).slice(1, -1),
          encodeURIComponent(secret.toWellFormed()),
        ]),
      ];
      const cores = written.flatMap(base64Cores);
      for (const core of cores)
        add(core, isForLines, () =>
          anySpelling(core).replaceAll("\\+", "[+-]").replaceAll("\\/", "[/_]"),
        );
      spellings.push(...written, ...cores.filter((core) => core.length >= shortestAnywhere));
    }
    yield;
  }

  function candidates(text: string): Pattern[] {
    const found = new Set(unanchored);
    let hash = 0;
    for (let at = 0; at < text.length; at += 1) {
      hash = nextHash(hash, text.charCodeAt(at));
      if (table[hash] === 1) for (const pattern of anchored.get(hash) ?? []) found.add(pattern);
    }
    return [...found].toSorted((a, b) => a.place - b.place);
  }

  function replace(text: string, isLine: boolean): string {
    let whole = text;
    for (const pattern of candidates(text)) {
      if (isLine && !pattern.isForLines) continue;
      pattern.compiled ??= new RegExp(pattern.source(), "g");
      whole = whole.replace(pattern.compiled, redacted);
    }
    return whole;
  }

  /** Stored answers are cut, perhaps within a secret. */
  function withoutHead(text: string): string {
    for (const spelling of spellings) {
      const head = spelling.slice(0, shortestHead);
      const from = text.length - spelling.length;
      for (let at = text.indexOf(head, from); at !== -1; at = text.indexOf(head, at + 1)) {
        if (spelling.startsWith(text.slice(at))) return `${text.slice(0, at)}${redacted}`;
      }
    }
    return text;
  }

  return {
    line: (line: string) => replace(line, true),
    answer(text: string) {
      const whole = replace(text, false);
      return text.length >= shortestCut ? withoutHead(whole) : whole;
    },
  };
}

/** Fewer characters of a secret reveal nothing. */
const shortestHead = 6;
/** Errors are cut at 300 characters, answers at 4 KiB. */
const shortestCut = 300;

/** A hash of the last four characters: shifts move older ones out of the table's bits. */
function nextHash(hash: number, code: number): number {
  return ((hash << shift) ^ (code * 0x9e5 + (code >> 3))) & (2 ** tableBits - 1);
}
const shift = Math.ceil(tableBits / anchorLength);

function hashOf(anchor: string): number {
  let hash = 0;
  for (let at = 0; at < anchorLength; at += 1) hash = nextHash(hash, anchor.charCodeAt(at));
  return hash;
}

/**
 * The base64 characters that depend only on `secret`, for each of its three offsets in the encoded
 * bytes.
 */
function base64Cores(secret: string): string[] {
  const bytes = Buffer.from(secret, "utf8");
  return [0, 1, 2].map((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString("base64")
      .replaceAll("=", "");
    const isWholeEnd = (offset + bytes.length) % 3 === 0;
    return encoded.slice(offset === 0 ? 0 : offset + 1, isWholeEnd ? encoded.length : -1);
  });
}

/**
 * A pattern for `text` with any of its characters percent-encoded, or escaped in JSON (also twice)
 * or HTML.
 */
export function anySpelling(text: string): string {
  return Array.from(text, (character) => {
    if (/[A-Za-z0-9]/.test(character)) return character;
    const utf8 = [...Buffer.from(character, "utf8")];
    const hex = (code: number, digits: number) =>
      code
        .toString(16)
        .padStart(digits, "0")
        .replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
    const units = Array.from(
      { length: character.length },
      (_, at) => `\\\\{1,8}u${hex(character.charCodeAt(at), 4)}`,
    ).join("");
    const spellings = [
      character === "\\" ? "(?:\\\\\\\\){1,4}|\\\\" : `\\\\{0,8}${literal(character)}`,
      utf8.map((byte) => `%(?:25){0,2}${hex(byte, 2)}`).join(""),
      units,
      `&#(?:${character.codePointAt(0)}|x0*${hex(character.codePointAt(0) ?? 0, 1)});`,
      ...(character in entities ? [entities[character]] : []),
      ...(character === " " ? ["\\+"] : []),
      ...(utf8.length > 1 ? [utf8.map((byte) => literal(String.fromCharCode(byte))).join("")] : []),
    ];
    return `(?:${spellings.join("|")})`;
  }).join("");
}

const entities: Readonly<Record<string, string>> = {
  '"': "&quot;",
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "'": "&apos;",
};

export function literal(character: string): string {
  return character.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

const signature =
  /\bv1a?(?:,|%2C)(?:[A-Za-z0-9+]|\\{0,8}\/|%2[BF]|\\+u002[Bf]){43,86}(?:={1,2}|(?:%3D|\\+u003d){1,2})?/gi;

const metaSignature = /\bsha256(?:=|%3D)[0-9a-f]{64}\b/gi;

/**
 * Signatures of deliveries, as Standard Webhooks and Meta write them. With one, anyone can replay
 * the event to the destination.
 */
function deliverySignatures(text: string): string {
  const rest = text.includes("v1") ? text.replace(signature, redacted) : text;
  return rest.includes("sha256") ? rest.replace(metaSignature, redacted) : rest;
}
