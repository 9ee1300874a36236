import { readFileSync } from "node:fs";
import { expect } from "vitest";

export const root = new URL("../../", import.meta.url).pathname;

/** A file of the project. */
export const readPage = (path: string): string => readFileSync(`${root}${path}`, "utf8");

/** The part of a page between two texts that it has. */
export function between(page: string, from: string, to: string): string {
  const start = page.indexOf(from);
  const end = page.indexOf(to, start + 1);
  expect([start, end], `${from} … ${to}`).not.toContain(-1);
  return page.slice(start, end);
}

/** Code blocks in this language, in order, without their indentation. */
export const codeBlocks = (page: string, language = "sh"): string[] =>
  [...page.matchAll(new RegExp(`^( *)\`\`\`${language}\\n([\\s\\S]*?)^ *\`\`\``, "gm"))].map(
    ([, indent = "", text = ""]) => text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  );

/** The cells of a row; `\|` is part of a cell. */
export const cellsOf = (row: string): string[] =>
  row
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());

/** The rows of the table whose head begins with this, as cells. */
export function rowsOf(page: string, head: string): string[][] {
  const start = page.indexOf(`| ${head} |`);
  expect(start, head).not.toBe(-1);
  return (page.slice(start).split(/\n(?!\|)/)[0] as string).split("\n").slice(2).map(cellsOf);
}

/** The words in code style in the first cells of that table. */
export const namesIn = (page: string, head: string): string[] =>
  rowsOf(page, head).flatMap(([cell = ""]) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name),
  );
