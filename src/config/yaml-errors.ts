import type { YAMLError } from "yaml";

/**
 * What the parser found, in our words: its own messages quote the file, and so could quote a secret.
 * Codes not named here get the last line.
 */
const words: Partial<Record<YAMLError["code"], string>> = {
  BAD_DQ_ESCAPE: "has a \\ escape that YAML does not know (inside \"…\"; use '…' for plain text)",
  BAD_INDENT: "is not indented like the lines it belongs to",
  BAD_SCALAR_START: "begins with a character that is special in YAML: put the value in quotes",
  BLOCK_AS_IMPLICIT_KEY: "has a second ': ' on the line: put the value in quotes",
  DUPLICATE_KEY: "is given twice",
  KEY_OVER_1024_CHARS: "has a key that is too long",
  MULTILINE_IMPLICIT_KEY: "is a line without ':' (or one that is not indented enough)",
  MULTIPLE_DOCS: "begins a second document (---); the settings are one",
  NON_STRING_KEY: "has a key that is not plain text",
  RESOURCE_EXHAUSTION: "is nested too deep",
  TAB_AS_INDENT: "is indented with a tab; YAML takes spaces only",
  TAG_RESOLVE_FAILED: "has a tag (!…) that means nothing here",
  BAD_ALIAS: "has an alias or anchor without a name",
};

/** Says in one line what is wrong; `line` is the line of the file it is on, read for a hint and not quoted. */
export function yamlErrorText(error: YAMLError, line: string): string {
  const text = error.code === "MISSING_CHAR" && /closing/.test(error.message) ? "has a quote that is not closed" : words[error.code];
  // `{ port: ${PORT} }`: the brace of the variable ends what YAML takes for a value. Cut, because the pattern is
  // quadratic in the length of a line.
  if (/[[{]/.test(line) && /(?:: |[[,{] *)[^"',[\]{}]*\$\{/.test(line.slice(0, 500))) {
    return `is not valid YAML; inside { } and [ ] a variable must be in quotes: "\${NAME}"`;
  }
  return text ?? "is not valid YAML (a missing quote, comma, bracket or ': '?)";
}
