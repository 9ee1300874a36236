import { hash } from "node:crypto";
import { inspect } from "node:util";
import { z } from "zod";

/**
 * A secret, token or key. It prints, serializes and inspects as `[secret]`; only `reveal()` returns
 * the text.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  /** Identifies the secret: 12 hex digits. Salted, so that no table of SHA-256 sums has it. */
  fingerprint(): string {
    return hash("sha256", `wamid-relay secret\0${this.#text}`).slice(0, 12);
  }

  toString(): string {
    return "[secret]";
  }

  toJSON(): string {
    return "[secret]";
  }

  [inspect.custom](): string {
    return "[secret]";
  }
}

/** Settings as text, for comparison. Secrets, which all print alike, appear as fingerprints. */
export function comparableText(settings: unknown): string {
  return JSON.stringify(settings, function (this: Record<string, unknown>, key, printed: unknown) {
    const held = this[key];
    return held instanceof Secret ? held.fingerprint() : printed;
  });
}

/** Stands for a secret that this process cannot read, where it may not be needed. */
export class MissingSecret extends Secret {
  readonly why: string;

  constructor(why: string) {
    super("");
    this.why = why;
  }

  override reveal(): string {
    throw new Error(this.why);
  }

  override fingerprint(): string {
    return "not available";
  }
}

/** Begins what `wamid-relay init` writes for a secret that it does not know. */
export const placeholderPrefix = "replace-me-";

export const secretSchema = z
  .string()
  .min(1, "is empty (is the environment variable set?)")
  // The title marks secrets in the JSON Schema.
  .meta({ title: "secret" })
  .transform((text) => new Secret(text));

export const headerName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "is not a header name");
export const headerValue = z
  .string()
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "is not a header value")
  .transform((value) => new Secret(value));
