/**
 * A test for texts that match any of the patterns. `*` matches any run of characters. Takes at most length of text times length
 * of pattern.
 */
export function compileGlobs(patterns: readonly string[]): (text: string) => boolean {
  if (patterns.includes("*")) return () => true;
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const globs = patterns.filter((pattern) => pattern.includes("*")).map(compileGlob);
  if (globs.length === 0) return (text) => exact.has(text);
  return (text) => exact.has(text) || globs.some((glob) => glob(text));
}

function compileGlob(pattern: string): (text: string) => boolean {
  const pieces = pattern.split("*");
  const head = pieces[0] as string;
  const tail = pieces.at(-1) as string;
  const middle = pieces.slice(1, -1).filter((piece) => piece !== "");
  return (text) => {
    const end = text.length - tail.length;
    if (end < head.length || !text.startsWith(head) || !text.endsWith(tail)) return false;
    // The first match of a piece leaves the most room for the rest, so no backtracking is needed.
    let from = head.length;
    for (const piece of middle) {
      const at = text.indexOf(piece, from);
      if (at === -1 || at + piece.length > end) return false;
      from = at + piece.length;
    }
    return true;
  };
}
