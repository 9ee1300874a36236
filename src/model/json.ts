import { isUtf8 } from "node:buffer";
import { RelayError } from "./errors.ts";

/**
 * Limits of a JSON body. An empty list takes three bytes of a body and ten times that in memory;
 * readers may be recursive.
 */
export const bodyLimits = { levels: 32, values: 250_000 } as const;

export const lineLimits = { levels: 32, values: 2_000 } as const;

export function parseBody(body: Buffer): unknown {
  const parsed = parseWithin(body, bodyLimits);
  if ("fault" in parsed) throw new RelayError("bad_request", `the body ${parsed.fault}`);
  return parsed.value;
}

/**
 * Parses JSON from outside after a check of its shape. `fault` continues a sentence that begins
 * with the name of the text.
 */
export function parseWithin(
  body: Buffer | string,
  { levels, values }: { readonly levels: number; readonly values: number },
): { readonly value: unknown } | { readonly fault: string } {
  // Decoding would replace other bytes with U+FFFD, which would then be stored and sent.
  if (typeof body !== "string" && !isUtf8(body)) return { fault: "is not valid UTF-8" };
  const text = typeof body === "string" ? body : body.toString("utf8");
  const shape = shapeOf(text, levels, values);
  if (shape === "deep") return { fault: `is nested more than ${levels} levels deep` };
  if (shape === "many") return { fault: `has more than ${values.toLocaleString("en")} values` };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { fault: "is not valid JSON" };
  }
}

/** Which limit the text exceeds, found without parsing, which would take the memory. */
function shapeOf(text: string, mostLevels: number, mostValues: number): "deep" | "many" | null {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = endOfString(text, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        depth += 1;
        if (depth > mostLevels) return "deep";
        values += 1;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1;
        break;
      case 0x2c: // ,
        values += 1;
        break;
      default:
    }
    if (values > mostValues) return "many";
  }
  return null;
}

function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at;
    if (code === 0x5c) at += 1;
  }
  return text.length;
}

// TypeScript's library lacks both.
const { parse, rawJSON } = JSON as unknown as {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown,
  ): unknown;
  rawJSON(source: string): object;
};

/** JavaScript rounds integers of 16 digits and more. */
const longNumber = /\d{16}/;
const digits = /^-?\d+$/;

/** Like `JSON.parse`, but an integer that would be rounded becomes a text with its digits. */
export function parseExact(text: string): unknown {
  if (!longNumber.test(text)) return JSON.parse(text) as unknown;
  return parse(text, (_key, value, { source = "" }) =>
    Number.isInteger(value) &&
    !Number.isSafeInteger(value) &&
    digits.test(source) &&
    source !== String(value)
      ? source
      : value,
  );
}

/** A number that JavaScript may write in another way. */
const oddNumber = /(?:^|[:,[])\s*(?:-?(?:\d{16}|\d+[.eE])|-0)/;

/** Like `JSON.parse`, but `JSON.stringify` writes each number as it was. */
export function parseVerbatim(text: string): unknown {
  // The reviver takes five times as long.
  if (!oddNumber.test(text)) return JSON.parse(text);
  return parse(text, (_key, value, { source = "" }) =>
    typeof value === "number" ? rawJSON(source) : value,
  );
}

/**
 * JSON with characters outside ASCII as `\\uXXXX`. Some receivers escape a body before they check
 * its signature.
 */
export function asciiJson(text: string): string {
  return text.replace(
    /[\u0080-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/**
 * The value at a dotted path (`items.0.id`) inside parsed JSON; undefined when any step is missing.
 */
export function readPath(root: unknown, path: string): unknown {
  let value: unknown = root;
  if (!path.includes(".")) return child(value, path);
  for (const key of path.split(".")) {
    value = child(value, key);
    if (value === undefined) return undefined;
  }
  return value;
}

/** Own properties only. */
export const child = (value: unknown, key: PropertyKey): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<PropertyKey, unknown>)[key]
    : undefined;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
