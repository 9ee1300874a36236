import fc from "fast-check";
import { expect, test } from "vitest";
import { createStreamReader } from "../../../src/cli/listen/wire.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const at = (seq: number) => ({ kind: "at", seq, newest: seq });

test("reads the same messages wherever the stream is cut", () => {
  const note = fc.string({ unit: "grapheme" });
  fc.assert(
    fc.property(fc.array(note, { maxLength: 10 }), fc.array(fc.nat(400), { maxLength: 20 }), (notes, cuts) => {
      const stream = bytes(
        notes.map((text, n) => `id: ${n}\nevent: bye\ndata: ${JSON.stringify({ reason: text })}\n\n: still here\n\n`).join(""),
      );
      const places = [...new Set([0, ...cuts.map((cut) => Math.min(cut, stream.length)), stream.length])].sort((a, b) => a - b);
      const read = createStreamReader();
      const found = places.slice(1).flatMap((end, n) => [...read(stream.subarray(places[n], end))]);
      expect(found).toEqual(notes.map((reason) => ({ kind: "bye", reason })));
    }),
    { numRuns: 300 },
  );
});

test("passes over messages of kinds that it does not know, and refuses known ones that are malformed", () => {
  const read = createStreamReader();
  const [first, second] = read(bytes('event: later\ndata: 1\n\nevent: at\ndata: {"seq":3,"newest":3}\n\n'));
  expect([first, second]).toEqual([{ kind: "other" }, at(3)]);
  expect(() => [...read(bytes('event: at\ndata: {"seq":"3"}\n\n'))]).toThrow("the stream is not that of a wamid-relay");
});

test("refuses a message without end instead of buffering it for ever", () => {
  const read = createStreamReader(1_000);
  expect([...read(bytes(`data: ${"x".repeat(900)}\n\n`))]).toHaveLength(1);
  expect(() => {
    for (let n = 0; n < 100; n++) [...read(bytes("data: x".repeat(10)))];
  }).toThrow("too long");
});
