// Checks README.md, CHANGELOG.md, CONTRIBUTING.md and docs: links and anchors, spelling, sentences,
// words, lines, and code blocks.
//
//   node .ci/docs/check.ts                checks them
//   node .ci/docs/check.ts --measure      prints words and sentences by page, and the long
// sentences; tables, code and headings do not count
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import GithubSlugger from "github-slugger";
import { checkBlocks } from "./blocks.ts";
import { checkCode } from "./code.ts";
import { type Fault, type Node, type Page, readPages, root, walk } from "./pages.ts";
import { checkLength, checkProse, longSentences, measure } from "./prose.ts";

const pages = readPages();
if (process.argv.includes("--measure")) {
  for (const page of [
    ...pages.map((each) => [each.path, [each]] as const),
    ["together", pages] as const,
  ]) {
    const { words, sentences, long, median, longestLine } = measure(page[1]);
    const share = `${((100 * long) / Math.max(1, sentences)).toFixed(1)} % over 30`;
    console.log(
      `${page[0].padEnd(50)} ${String(words).padStart(6)} words, ${share}, median ${median}, longest line ${longestLine}`,
    );
  }
  for (const page of pages)
    for (const sentence of longSentences(page)) console.log(`${page.path}: ${sentence}`);
} else {
  const anchors = new Map(pages.map(({ path, tree }) => [path, anchorsOf(tree)]));
  const found = await Promise.all(
    pages.map(async (page) => [
      ...checkLinks(page, anchors),
      ...(await checkProse(page)),
      ...(await checkBlocks(page)),
    ]),
  );
  const faults = [
    ...found.flat(),
    ...(await checkCode(pages)),
    ...checkDictionary(),
    ...checkLength(pages),
  ];
  for (const { path, line, message } of faults) console.error(`${path}:${line} ${message}`);
  const isSpelled = spell(pages.map(({ path }) => path));
  if (faults.length > 0 || !isSpelled) process.exitCode = 1;
}

/** The anchors of the headings, as GitHub makes them, and those written as HTML. */
function anchorsOf(tree: Node): Set<string> {
  const slugger = new GithubSlugger();
  const anchors = new Set<string>();
  for (const node of walk(tree)) {
    if (node.type === "Header") anchors.add(slugger.slug(textOf(node)));
    if (node.type === "Html")
      for (const [, id = ""] of node.raw.matchAll(/\bid="([^"]+)"/g)) anchors.add(id);
  }
  return anchors;
}

function textOf(node: Node): string {
  return node.children === undefined ? (node.value ?? "") : node.children.map(textOf).join("");
}

function* checkLinks(
  { path, tree }: Page,
  anchors: ReadonlyMap<string, ReadonlySet<string>>,
): Generator<Fault> {
  for (const node of walk(tree)) {
    const urls =
      node.type === "Html"
        ? [...node.raw.matchAll(/(?:src|srcset|href)="([^"]+)"/g)].map(([, url = ""]) => url)
        : [node.url ?? ""];
    for (const url of urls) {
      if (url === "" || /^[a-z]+:/.test(url)) continue;
      const [file = "", anchor] = url.split("#");
      const target = file === "" ? path : normalize(join(dirname(path), file));
      const { line } = node.loc.start;
      if (!existsSync(join(root, target)))
        yield { path, line, message: `links to ${url}, which does not exist` };
      else if (anchor !== undefined && anchors.get(target)?.has(anchor) !== true)
        yield { path, line, message: `${target} has no anchor #${anchor}` };
    }
  }
}

/** The project's dictionary has each word once, in alphabetical order. */
function checkDictionary(): Fault[] {
  const path = ".ci/docs/words.txt";
  const words = readFileSync(join(root, path), "utf8").trimEnd().split("\n");
  return words.flatMap((word, index) => {
    const before = words[index - 1];
    const isBehind = before === undefined || before.toLowerCase() < word.toLowerCase();
    return isBehind
      ? []
      : [{ path, line: index + 1, message: `${word} stands after ${before}; sort the words` }];
  });
}

function spell(paths: readonly string[]): boolean {
  const cspell = join(root, "node_modules/.bin/cspell");
  try {
    execFileSync(
      cspell,
      ["lint", "--no-progress", "--no-summary", "--config", ".ci/docs/cspell.json", ...paths],
      {
        cwd: root,
        stdio: "inherit",
      },
    );
    return true;
  } catch {
    return false;
  }
}
