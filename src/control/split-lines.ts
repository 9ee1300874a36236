export const maxLineBytes = 64 * 1024;

/** A line without its end, by its number from 1, or why it cannot be read. */
export type Line =
  | { readonly line: number; readonly text: string }
  | { readonly line: number; readonly fault: string };

export const isBlank = (line: Line): boolean => "text" in line && line.text.trim() === "";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The lines of UTF-8 in `bytes`, ended by LF or CRLF, empty ones too. `from`: number of the first.
 * Returns that of the next.
 */
export function* linesIn(bytes: Uint8Array, from = 1): Generator<Line, number> {
  let line = from;
  for (let at = 0; at < bytes.length; line += 1) {
    const found = bytes.indexOf(0x0a, at);
    const end = found === -1 ? bytes.length : found;
    yield readLine(line, bytes, at, bytes[end - 1] === 0x0d ? end - 1 : end);
    at = end + 1;
  }
  return line;
}

function readLine(line: number, bytes: Uint8Array, from: number, to: number): Line {
  if (from === to) return { line, text: "" };
  if (to - from > maxLineBytes) return { line, fault: `is longer than ${maxLineBytes} bytes` };
  try {
    const text = decoder.decode(bytes.subarray(from, to));
    return { line, text: line === 1 && text.startsWith("\ufeff") ? text.slice(1) : text };
  } catch {
    return { line, fault: "is not valid UTF-8" };
  }
}
