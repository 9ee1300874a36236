import { CST, Lexer, type YAMLError } from "yaml";

/** Replaces the parser's messages, which quote the file and so may quote a secret. */
const yamlErrorTexts: Partial<Record<YAMLError["code"], string>> = {
  BAD_DQ_ESCAPE: "has a \\ escape that YAML does not know (inside \"…\"; use '…' for plain text)",
  BAD_INDENT: "is not indented like the lines it belongs to",
  BAD_SCALAR_START: "begins with a character that is special in YAML: put the value in quotes",
  BLOCK_AS_IMPLICIT_KEY: "has a second ': ' on the line: put the value in quotes",
  KEY_OVER_1024_CHARS: "has a key that is too long",
  MULTILINE_IMPLICIT_KEY:
    "is a line without ': ', a colon and a space (or one that is not indented enough)",
  MULTIPLE_DOCS: "begins a second document (---); the settings are one",
  NON_STRING_KEY: "has a key that is not plain text",
  RESOURCE_EXHAUSTION: "is nested too deep",
  TAB_AS_INDENT: "is indented with a tab; YAML takes spaces only",
  TAG_RESOLVE_FAILED: "has a tag (!…) that means nothing here",
  BAD_ALIAS: "has an alias or anchor without a name",
};

const closers: Readonly<Record<string, string>> = {
  "{": "}, and indent the lines inside",
  "[": "], and indent the lines inside",
  '"': '"',
  "'": "'",
};

/** What is wrong, and at which offset of `text`. */
export function yamlFault({ code, message, pos: [at] }: YAMLError, text: string) {
  const begin = text.lastIndexOf("\n", at - 1) + 1;
  const end = text.indexOf("\n", at);
  const line = text.slice(begin, end === -1 ? undefined : end);
  // `{ port: ${PORT} }`: the variable's brace ends the YAML value. The line is cut because the
  // pattern is quadratic in its length.
  if (/[[{]/.test(line) && /(?:: |[[,{] *)[^"',[\]{}]*\$\{/.test(line.slice(0, 500))) {
    const hint = `is not valid YAML; inside { } and [ ] a variable must be in quotes: "\${NAME}"`;
    return { message: hint, offset: at };
  }
  const opened = /closing| end with a /.test(message) ? openBefore(text, at) : undefined;
  if (opened !== undefined) {
    const opener = text.charAt(opened);
    const closer = closers[opener];
    return {
      message: `begins with ${opener}, which nothing closes: add the closing ${closer}`,
      offset: opened,
    };
  }
  const other =
    yamlErrorTexts[code] ?? "is not valid YAML (a missing quote, comma, bracket or ': '?)";
  return { message: other, offset: at };
}

/** Of the lexer; they are not in the text. */
const marks: readonly string[] = [CST.DOCUMENT, CST.FLOW_END, CST.SCALAR];

/**
 * Offset of the bracket or quote that is open at `end`. The parser only has the place where it
 * gave up, which may be the end of the file.
 */
function openBefore(text: string, end: number): number | undefined {
  const brackets: number[] = [];
  let offset = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (marks.includes(lexeme)) continue;
    if (offset >= end) break;
    if (/^[[{]$/.test(lexeme)) brackets.push(offset);
    else if (/^[\]}]$/.test(lexeme)) brackets.pop();
    else if (/^["']/.test(lexeme) && offset + lexeme.length === end) return offset;
    offset += lexeme.length;
  }
  return brackets.at(-1);
}
