/** A line without its end. `number` counts from 1, and counts empty lines, which are not given. */
export type Line =
  | { readonly number: number; readonly text: string }
  /** `text` could not be had. */
  | { readonly number: number; readonly fault: string };

export interface LineSplitter {
  /** The lines that end in this chunk. To be read to the end before the next push. */
  push(chunk: Uint8Array): Iterable<Line>;
  /** What is left when no more comes: the last line needs no end. */
  end(): Iterable<Line>;
}

const newline = 0x0a;

/**
 * Cuts a stream of bytes into lines of UTF-8, ended by LF or CRLF, however it arrives in chunks. Of a
 * line of more than `maxBytes` nothing is held. A byte order mark before the first line is left out.
 */
export function createLineSplitter(maxBytes: number): LineSplitter {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let begun: Uint8Array[] = [];
  let size = 0;
  let number = 1;

  function hold(part: Uint8Array): void {
    size += part.length;
    // One more than fits, so that CR before the end of the largest line still does.
    if (size > maxBytes + 1) begun = [];
    else if (part.length > 0) begun.push(part);
  }

  function take(): Line | null {
    const [first = new Uint8Array(), ...rest] = begun;
    const bytes = rest.length === 0 ? first : joined(begun, size);
    const length = size;
    begun = [];
    size = 0;
    const at = number;
    number += 1;
    const hasReturn = length <= maxBytes + 1 && bytes[length - 1] === 0x0d;
    if (length - (hasReturn ? 1 : 0) > maxBytes) return { number: at, fault: `is longer than ${maxBytes} bytes` };
    try {
      const text = decoder.decode(hasReturn ? bytes.subarray(0, -1) : bytes);
      const shown = at === 1 && text.startsWith("\ufeff") ? text.slice(1) : text;
      return shown.trim() === "" ? null : { number: at, text: shown };
    } catch {
      return { number: at, fault: "is not valid UTF-8" };
    }
  }

  return {
    *push(chunk) {
      let from = 0;
      for (let to = chunk.indexOf(newline); to !== -1; to = chunk.indexOf(newline, from)) {
        hold(chunk.subarray(from, to));
        from = to + 1;
        const line = take();
        if (line !== null) yield line;
      }
      const rest = chunk.subarray(from);
      // A copy: a few bytes must not hold on to the whole chunk they came in.
      hold(size + rest.length > maxBytes + 1 ? rest : new Uint8Array(rest));
    },
    *end() {
      if (size === 0) return;
      const line = take();
      if (line !== null) yield line;
    },
  };
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
