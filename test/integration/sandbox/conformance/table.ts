/** A row of three cells, as text. */
type Row = readonly [line: string, quoted: string, last: string];

/**
 * The rows of the table under a heading, up to the next heading. `\|` in a cell is a bar. Throws
 * for rows that have not three cells.
 */
export function readRows(markdown: string, heading: string): Row[] {
  const [, below] = markdown.split(`${heading}\n`);
  if (below === undefined) throw new Error(`no heading ${heading}`);
  const section = below.split(/^##/m)[0] ?? "";
  const rows = section
    .split("\n")
    .filter(
      (line) => line.startsWith("|") && !line.startsWith("| line |") && !line.startsWith("|---"),
    );
  return rows.map((row) => {
    const cells = row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll("\\|", "|"));
    const [line, quoted, last] = cells;
    if (cells.length !== 3 || line === undefined || quoted === undefined || last === undefined)
      throw new Error(`not three cells: ${row}`);
    return [line, quoted, last];
  });
}

/**
 * The names of the tests in a file. Throws when a test has a name that is not plainly there to
 * read, or is not run.
 */
export function readTests(source: string): string[] {
  const calls = [...source.matchAll(/^[ \t]*(?:test|it)\b.*/gm)];
  return calls.map(([call]) => {
    const name = /^test\("((?:[^"\\]|\\.)*)", (?:async )?\(/.exec(call)?.[1];
    if (name === undefined) throw new Error(`a test whose name cannot be read: ${call.trim()}`);
    return JSON.parse(`"${name}"`) as string;
  });
}
