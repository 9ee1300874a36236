import fc from "fast-check";
import { expect, test } from "vitest";
import { createLineSplitter, type Line } from "../../../src/control/split-lines.ts";

const limit = 40;

/** The lines of `bytes` cut at these places. */
function split(bytes: Uint8Array, cuts: readonly number[]): Line[] {
  const splitter = createLineSplitter(limit);
  const lines: Line[] = [];
  let from = 0;
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    const to = Math.max(from, Math.min(cut, bytes.length));
    lines.push(...splitter.push(bytes.subarray(from, to)));
    from = to;
  }
  lines.push(...splitter.push(bytes.subarray(from)), ...splitter.end());
  return lines;
}

/** The same by other means: the whole at once. */
function plainly(bytes: Uint8Array): Line[] {
  const parts = Buffer.from(bytes).toString("latin1").split("\n");
  if (parts.at(-1) === "") parts.pop();
  return parts.flatMap((part, index): Line[] => {
    const line = Buffer.from(part.endsWith("\r") ? part.slice(0, -1) : part, "latin1");
    const number = index + 1;
    if (line.length > limit) return [{ number, fault: `is longer than ${limit} bytes` }];
    try {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: number > 1 }).decode(line);
      return text.trim() === "" ? [] : [{ number, text }];
    } catch {
      return [{ number, fault: "is not valid UTF-8" }];
    }
  });
}

const pieces = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("\n", "\r\n", "\n\n", "\r", " ", "\ufeff").map((text) => Buffer.from(text)) },
  { weight: 4, arbitrary: fc.string({ unit: "grapheme", maxLength: 12 }).map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: fc.integer({ min: limit - 2, max: limit + 3 }).map((length) => Buffer.alloc(length, "x")) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes)) },
);
const streams = fc.array(pieces, { maxLength: 30 }).map((parts) => Buffer.concat(parts));

test("however a stream is cut into chunks, its lines are the same", () => {
  fc.assert(
    fc.property(streams, fc.array(fc.nat({ max: 300 }), { maxLength: 20 }), (bytes, cuts) => {
      expect(split(bytes, cuts)).toEqual(plainly(bytes));
    }),
    { numRuns: 2_000 },
  );
});

test("byte by byte too", () => {
  const bytes = Buffer.from("\ufeffé1\r\n\n{}\nlast ñ");
  expect(split(bytes, Array.from(bytes.keys()))).toEqual([
    { number: 1, text: "é1" },
    { number: 3, text: "{}" },
    { number: 4, text: "last ñ" },
  ]);
});

test("nothing is held of a line without an end", () => {
  const splitter = createLineSplitter(1024);
  const chunk = new Uint8Array(1024 * 1024).fill(0x78);
  const before = process.memoryUsage().arrayBuffers;
  for (let n = 0; n < 200; n += 1) expect([...splitter.push(chunk)]).toEqual([]);
  globalThis.gc?.();
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(150 * 1024 * 1024);
  expect([...splitter.push(Buffer.from("\nshort\n"))]).toEqual([
    { number: 1, fault: "is longer than 1024 bytes" },
    { number: 2, text: "short" },
  ]);
});
