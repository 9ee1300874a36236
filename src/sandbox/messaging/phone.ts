import { invalidPhone } from "./refusals.ts";

/**
 * A phone in international format as the world's records have it: `+` and 5 to 31 digits, nothing else; null for any
 * other text. So many because the document takes a `to` of 6 to 32 characters, though no real phone has more than 15
 * digits (E.164). It starts with `+`: a space before it is refused. Spaces, hyphens, dots and brackets after it are
 * dropped: the sandbox's choice.
 */
export function parsePhone(text: string): string | null {
  const bare = text.replace(/(?<!^)[\s().-]/g, "");
  return /^\+[1-9]\d{4,30}$/.test(bare) ? bare : null;
}

/** The same; other text is refused with 400. */
export function requirePhone(text: string): string {
  const phone = parsePhone(text);
  if (phone === null) throw invalidPhone();
  return phone;
}
