import { createRequire } from "node:module";
import { TextlintKernel } from "@textlint/kernel";
import { type Fault, type Node, type Page, walk } from "./pages.ts";

const load = createRequire(import.meta.url);
const defaultOf = (name: string) => {
  const loaded = load(name) as { readonly default?: unknown };
  return (loaded.default ?? loaded) as never;
};

const longestLine = 400;
const mostWords = 30;
/** Of all pages together, without tables, code and headings. */
const mostWordsInAll = 20_000;

/**
 * Words that docs/contributing/README.md rules out, with the ones to write. Each matches whole
 * words, whatever their case.
 */
const words: readonly (readonly [pattern: string, instead: string])[] = [
  ["took down", "accepted"],
  ["taken down", "accepted"],
  ["under way", "in flight"],
  ["at hand", "pending"],
  ["in hand", "pending"],
  ["sightings?", "observation"],
  ["let go", "dispatched"],
  ["plan(?:s|ned)? again", "backfill"],
  ["for ever", "forever"],
  ["is no (?:setting|command|route|source)", "unknown"],
  ["nothing known", "not found"],
  [
    "(?:the relay|a relay|a worker|a receiver|redis|it) (?:tells|told|hears|heard|believes|believed|owes|learns|learned)",
    "reports, receives, observes",
  ],
  ["prov(?:e|es|ed|ing)", "verify, show"],
  ["sweeps?", "hydration pass, purge"],
  ["dut(?:y|ies)", "leader lease"],
  ["(?:redis|postgresql) (?:\\w+ ){0,3}(?:gone|away)", "unavailable"],
  ["(?:is|are|was|were) forwarded", "routed"],
  ["who(?:m)?ever", "the sender, client or operator"],
  ["note that", "the sentence without it"],
  ["please", "the sentence without it"],
  ["simply", "the sentence without it"],
];

const rules = [
  {
    ruleId: "long sentence",
    rule: defaultOf("textlint-rule-en-max-word-count"),
    options: { max: mostWords },
  },
  {
    ruleId: "word",
    rule: defaultOf("textlint-rule-terminology"),
    options: {
      defaultTerms: false,
      skip: ["Link"],
      terms: words.map(([pattern, instead]) => [`\\b${pattern}\\b`, instead]),
    },
  },
];
const plugins = [{ pluginId: "markdown", plugin: defaultOf("@textlint/textlint-plugin-markdown") }];

/** Faults of a page's sentences, words and lines. */
export async function checkProse({ path, text }: Page): Promise<Fault[]> {
  const { messages } = await new TextlintKernel().lintText(text, {
    ext: ".md",
    filePath: path,
    plugins,
    rules,
  });
  const found = messages.map(({ line, message, ruleId }) => ({
    path,
    line,
    message: `${ruleId}: ${message}`,
  }));
  for (const [index, line] of text.split("\n").entries()) {
    if (line.length > longestLine)
      found.push({
        path,
        line: index + 1,
        message: `${line.length} characters; the most are ${longestLine}`,
      });
  }
  return found;
}

export interface Measures {
  readonly words: number;
  readonly sentences: number;
  /** Sentences of more than 30 words. */
  readonly long: number;
  readonly median: number;
  readonly longestLine: number;
  /** Lines of more than 400 characters. */
  readonly longLines: number;
}

/** Counts the prose of pages: paragraphs and list items, without tables, code and headings. */
export function measure(pages: readonly Page[]): Measures {
  const lengths = pages
    .flatMap(({ tree }) => [...paragraphsOf(tree)].flatMap(sentencesOf))
    .map((sentence) => wordsOf(sentence).length);
  const sorted = lengths.filter((length) => length > 0).toSorted((a, b) => a - b);
  const lines = pages.flatMap(({ text }) => text.split("\n").map((line) => line.length));
  return {
    words: sorted.reduce((sum, length) => sum + length, 0),
    sentences: sorted.length,
    long: sorted.filter((length) => length > mostWords).length,
    median: sorted[Math.floor(sorted.length / 2)] ?? 0,
    longestLine: Math.max(...lines),
    longLines: lines.filter((length) => length > longestLine).length,
  };
}

/** A fault when all pages together have too many words. */
export function checkLength(pages: readonly Page[]): Fault[] {
  const { words } = measure(pages);
  return words <= mostWordsInAll
    ? []
    : [
        {
          path: "docs",
          line: 1,
          message: `${words} words of prose; the most are ${mostWordsInAll}`,
        },
      ];
}

/** The sentences of a page with more than 30 words. */
export function longSentences({ tree }: Page): string[] {
  return [...paragraphsOf(tree)]
    .flatMap(sentencesOf)
    .filter((sentence) => wordsOf(sentence).length > mostWords);
}

function* paragraphsOf(tree: Node): Generator<string> {
  for (const node of walk(tree)) if (node.type === "Paragraph") yield plainOf(node);
}

function plainOf(node: Node): string {
  if (node.type === "Code") return "code";
  if (node.type === "Html" || node.type === "Image") return "";
  return node.children === undefined ? (node.value ?? " ") : node.children.map(plainOf).join("");
}

const sentencesOf = (text: string): string[] => text.split(/(?<=[.!?])\s+/);
const wordsOf = (text: string): string[] =>
  text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
