import { invalidPhone } from "./refusals.ts";

/**
 * A phone in international format as the world's records have it: `+` and 5 to 15 digits (E.164), nothing else;
 * null for any other text. Spaces, hyphens, dots and brackets between the digits are dropped: the sandbox's
 * choice, which gives the document's 32 characters of `to` a use.
 */
export function parsePhone(text: string): string | null {
  const bare = text.replace(/[\s().-]/g, "");
  return /^\+[1-9]\d{4,14}$/.test(bare) ? bare : null;
}

/** The same; other text is refused with 400. */
export function requirePhone(text: string): string {
  const phone = parsePhone(text);
  if (phone === null) throw invalidPhone();
  return phone;
}
