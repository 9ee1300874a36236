import { expect, test } from "vitest";
import { linesIn, maxLineBytes } from "../../../src/control/split-lines.ts";

test("cuts at LF and CRLF, counts empty lines, and needs no end of the last one", () => {
  expect([...linesIn(Buffer.from("é1\r\n\n{}\n\r\nlast ñ"))]).toEqual([
    { line: 1, text: "é1" },
    { line: 2, text: "" },
    { line: 3, text: "{}" },
    { line: 4, text: "" },
    { line: 5, text: "last ñ" },
  ]);
  expect([...linesIn(Buffer.from("{}\n"))]).toEqual([{ line: 1, text: "{}" }]);
  expect([...linesIn(Buffer.from("a\rb\n"))]).toEqual([{ line: 1, text: "a\rb" }]);
  expect([...linesIn(new Uint8Array())]).toEqual([]);
});

test("leaves out a byte order mark before the first line only", () => {
  expect([...linesIn(Buffer.from("\ufeffa\n\ufeffb"))]).toEqual([
    { line: 1, text: "a" },
    { line: 2, text: "\ufeffb" },
  ]);
});

test("counts on from the number it is given, and returns that of the next line", () => {
  const lines = linesIn(Buffer.from("a\nb\n"), 7);
  expect([lines.next().value, lines.next().value, lines.next()]).toEqual([
    { line: 7, text: "a" },
    { line: 8, text: "b" },
    { done: true, value: 9 },
  ]);
});

test("names a line that is too long or not UTF-8, and reads the others", () => {
  const [longest, tooLong] = ["x".repeat(maxLineBytes), "x".repeat(maxLineBytes + 1)];
  const bytes = Buffer.concat([
    Buffer.from(`${longest}\r\n${tooLong}\n`),
    Buffer.from([0xff, 0x0a]),
    Buffer.from("short"),
  ]);
  expect([...linesIn(bytes)]).toEqual([
    { line: 1, text: longest },
    { line: 2, fault: `is longer than ${maxLineBytes} bytes` },
    { line: 3, fault: "is not valid UTF-8" },
    { line: 4, text: "short" },
  ]);
});
