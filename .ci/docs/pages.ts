import { globSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** A node of a page's Markdown, as textlint reads it. */
export interface Node {
  readonly type: string;
  readonly raw: string;
  readonly loc: { readonly start: { readonly line: number } };
  readonly children?: readonly Node[];
  readonly value?: string;
  readonly url?: string;
  readonly lang?: string | null;
  readonly meta?: string | null;
}

export interface Page {
  /** From the root of the project. */
  readonly path: string;
  readonly text: string;
  readonly tree: Node;
}

export interface Fault {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

// The package is CommonJS without types for this import.
const { parse } = createRequire(import.meta.url)("@textlint/markdown-to-ast") as {
  parse: (text: string) => Node;
};

/** The document of the messaging service is a copy, and not ours to edit. */
const copied = "docs/contributing/messaging-service-api.md";

/** All pages that people read, in alphabetical order. */
export function readPages(): Page[] {
  const paths = globSync(["*.md", "docs/**/*.md", "bench/*.md", "deploy/**/*.md"], { cwd: root });
  return paths
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => path !== copied)
    .toSorted()
    .map((path) => {
      const text = readFileSync(`${root}${path}`, "utf8");
      return { path, text, tree: parse(text) };
    });
}

/** A node and everything below it, in the order of the page. */
export function* walk(node: Node): Generator<Node> {
  yield node;
  for (const child of node.children ?? []) yield* walk(child);
}
