/**
 * Characters that a terminal acts upon instead of showing: controls, and those that turn the direction of
 * text around. What is stored comes from outside, and could otherwise rewrite the screen.
 */
const acting = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const short: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One line of text, with what a terminal would act upon written as `\n` or `\u001b`. */
export function printable(text: string): string {
  return text.replace(acting, (character) => short[character] ?? asEscape(character));
}

/** The same for text of several lines: line breaks stay. */
export function printableLines(text: string): string[] {
  return text.split(/\r?\n/).map(printable);
}

/** JSON that is as safe on a terminal; it parses to the same value. */
export function printableJson(value: unknown): string {
  // JSON.stringify writes no control character but its own line breaks, which stay.
  return JSON.stringify(value, null, 2)
    .split("\n")
    .map((line) => line.replace(acting, asEscape))
    .join("\n");
}

/** The same for JSON that stands in one line. */
export function asLine(json: string): string {
  return json.replace(acting, asEscape);
}

function asEscape(character: string): string {
  return Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}
