import fc from "fast-check";
import { expect, test } from "vitest";
import { createSseParser, type SseMessage } from "../../../src/cli/listen/wire.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const parse = (text: string): SseMessage[] => createSseParser().push(bytes(text));

test("messages with several lines of data, comments, fields without a space or a colon, and all three ends of lines", () => {
  expect(parse(": hi\nid: 7\nevent: event\ndata: a\ndata:b\ndata:  c\nretry: 3\nodd\n\n")).toEqual([
    { event: "event", data: "a\nb\n c", id: "7" },
  ]);
  expect(parse("data: a\r\n\r\ndata: b\r\rdata: c\n\n").map(({ data }) => data)).toEqual(["a", "b", "c"]);
  expect(parse("\uFEFFdata: a\n\n")).toEqual([{ event: "message", data: "a", id: null }]);
  expect(parse("data\n\n")).toEqual([{ event: "message", data: "", id: null }]);
  // Without data nothing is said, and what is not ended is not said yet.
  expect(parse("event: x\nid: 1\n\ndata: cut")).toEqual([]);
  expect(parse("id: a\0b\ndata: x\n\n")).toEqual([{ event: "message", data: "x", id: null }]);
});

test("wherever a stream is cut, the same messages come of it", () => {
  const line = fc.oneof(
    fc.constantFrom("", "", "data", "data:", "id: 5", "event: event", ": comment", "retry: 1", "data: é😀 \u2028"),
    fc.string({ unit: "grapheme" }).map((text) => `data: ${text.replace(/[\r\n]/g, "")}`),
  );
  const stream = fc
    .array(fc.tuple(line, fc.constantFrom("\n", "\r\n", "\r")), { maxLength: 30 })
    .map((lines) => lines.map(([text, end]) => text + end).join(""));
  fc.assert(
    fc.property(stream, fc.array(fc.nat(400), { maxLength: 20 }), (text, cuts) => {
      const all = bytes(text);
      const places = [...new Set([0, ...cuts.map((cut) => Math.min(cut, all.length)), all.length])].sort((a, b) => a - b);
      const parser = createSseParser();
      const found = places.slice(1).flatMap((end, n) => parser.push(all.subarray(places[n], end)));
      expect(found).toEqual(parse(text));
    }),
    { numRuns: 500 },
  );
});

test("what is written is what is read", () => {
  const text = fc.string({ unit: "grapheme" }).map((raw) => raw.replace(/[\r\n]/g, " "));
  fc.assert(
    fc.property(fc.array(fc.record({ event: fc.constantFrom("event", "at"), data: text, id: fc.nat() })), (sent) => {
      const stream = sent.map(({ event, data, id }) => `id: ${id}\nevent: ${event}\ndata: ${data}\n\n: still here\n\n`).join("");
      expect(parse(stream)).toEqual(sent.map(({ event, data, id }) => ({ event, data, id: String(id) })));
    }),
  );
});

test("a message without end is refused, not gathered for ever", () => {
  const parser = createSseParser(1_000);
  expect(parser.push(bytes(`data: ${"x".repeat(900)}\n\n`)).length).toBe(1);
  expect(() => {
    for (let n = 0; n < 100; n++) parser.push(bytes("data: x".repeat(10)));
  }).toThrow("too long");
});
