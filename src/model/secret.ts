import { createHash } from "node:crypto";
import { inspect } from "node:util";
import { z } from "zod";

/** A secret, token or key. It prints, serialises and inspects as `[secret]`; only `reveal()` gives the text. */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  /**
   * Names the secret without telling it: 12 hex digits, salted by purpose so that it cannot be
   * looked up in tables of plain SHA-256 sums. Says which secret proved an event.
   */
  fingerprint(): string {
    return createHash("sha256").update("wamid-relay secret\0").update(this.#text).digest("hex").slice(0, 12);
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

/** A secret in the settings: text that is not empty. */
export const secretSchema = z
  .string()
  .min(1, "is empty (is the environment variable set?)")
  // The title is how the JSON Schema, and what reads it, knows a secret.
  .meta({ title: "secret" })
  .transform((text) => new Secret(text));
