import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { openRegistrationFile } from "../../../src/cli/track-file.ts";
import { type Line, maxLineBytes } from "../../../src/control/split-lines.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const folder = tempFolder();

async function read(text: string | Buffer, name = "some.csv"): Promise<Line[]> {
  const path = join(folder, name);
  writeFileSync(path, text);
  return Array.fromAsync(openRegistrationFile(path).lines);
}

/** The values of `wamid`, or the faults, by line. */
async function wamidsOf(rows: string, newline = "\n"): Promise<[number, unknown][]> {
  const lines = await read(`account,wamid${newline}${rows}`);
  return lines.map((line) => [
    line.line,
    "text" in line ? (JSON.parse(line.text) as { wamid?: string }).wamid : line.fault,
  ]);
}

const fields = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc
    .array(fc.constantFrom(",", ";", '"', "\n", "\r", "\r\n", "a", " ", "é"), { maxLength: 6 })
    .map((parts) => parts.join("")),
);
const quoted = (field: string) => `"${field.replaceAll('"', '""')}"`;

test("reads back what is written as RFC 4180, with every separator, line end and quoting", async () => {
  const rows = fc.array(fc.tuple(fc.tuple(fields, fc.boolean()), fc.tuple(fields, fc.boolean())), {
    minLength: 1,
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(
      rows,
      fc.constantFrom(",", ";"),
      fc.constantFrom("\n", "\r\n"),
      fc.boolean(),
      async (table, separator, newline, bom) => {
        const written = table.map((row) =>
          row
            .map(([field, always]) => (always || /[",;\r\n]/.test(field) ? quoted(field) : field))
            .join(separator),
        );
        const lines = await read(
          `${bom ? "\ufeff" : ""}${[`account${separator}wamid`, ...written].join(newline)}${newline}`,
        );
        const whole = table.map(([[account], [wamid]]) => ({
          ...(account === "" ? {} : { account }),
          ...(wamid === "" ? {} : { wamid }),
        }));
        expect(lines.map((line) => ("text" in line ? JSON.parse(line.text) : line))).toEqual(whole);
      },
    ),
    { numRuns: 300 },
  );
});

test("gives the line where each record begins, over empty lines and records of several lines", async () => {
  expect(await wamidsOf('\r\n1,"x\r\ny"\r\n\r\n"","z"\r\n3,4', "\r\n")).toEqual([
    [3, "x\r\ny"],
    [6, "z"],
    [7, "4"],
  ]);
});

test("refuses a record with a quote inside an unquoted field, and reads on", async () => {
  expect(await wamidsOf('1,a"b\n2,good\n3\n4,good\n')).toEqual([
    [2, "has a quote inside a field without quotes"],
    [3, "good"],
    [4, "has 1 fields, not 2 as the first line"],
    [5, "good"],
  ]);
});

test.each([
  ['"a"b,1', "has text after a closing quote; nothing after it was read"],
  ['1,"open', "has a quote that is never closed; nothing after it was read"],
  [
    "x".repeat(70_000),
    "is longer than 65536 bytes; is a quote missing?; nothing after it was read",
  ],
  [
    `1,"${"x\n".repeat(400_000)}`,
    "is longer than 65536 bytes; is a quote missing?; nothing after it was read",
  ],
])(
  "stops where the end of a record is unknown, after all records before it: %.10s",
  async (bad, fault) => {
    const before = Array.from({ length: 5_000 }, (_, n) => [n + 2, `w${n}`]);
    const rows = before.map(([line, wamid]) => `${line},${wamid}\n`).join("");
    expect(await wamidsOf(`${rows}${bad}\n2,lost\n`)).toEqual([...before, [5_002, fault]]);
  },
);

test("takes the format from the name, else from the first character", async () => {
  const line = '{"account":"main"}';
  expect(await read(`\n${line}\n`, "some.txt")).toEqual([{ line: 2, text: line }]);
  expect(await read("account,wamid\nmain,w\n", "some.txt")).toEqual([
    { line: 2, text: '{"account":"main","wamid":"w"}' },
  ]);
  expect(await read(`${line}\n`, "some.jsonl")).toEqual([{ line: 1, text: line }]);
  await expect(read(line)).rejects.toThrow("line 1 has a quote inside a field without quotes");
  await expect(read('"account,wamid\nmain,w\n')).rejects.toThrow(
    "line 1 has a quote that is never closed",
  );
});

test("reads a file of any size with little memory", async () => {
  const path = join(folder, "large.csv");
  const rows = Array.from({ length: 100_000 }, (_, n) => `main,wamid.${n}\n`);
  writeFileSync(path, `account,wamid\n${rows.join("")}`);
  const file = openRegistrationFile(path);
  let count = 0;
  for await (const { line } of file.lines) {
    count += 1;
    if (line !== count + 1) expect.fail(`record ${count} begins in line ${line}`);
    // Chunks are read as records are taken: of 64 KiB each, and some are buffered.
    if (count === 1) expect(file.read()).toBeLessThan(1024 * 1024);
  }
  expect(count).toBe(100_000);
});

test("reads NDJSON of any length, whose lines the chunks of the file cut anywhere", async () => {
  const lines = Array.from({ length: 3_000 }, (_, n) =>
    JSON.stringify({ wamid: `w${n}`, note: "é".repeat(n % 97) }),
  );
  const endless = "x".repeat(5 * maxLineBytes);
  const longest = "y".repeat(maxLineBytes);
  const text = `${lines.join("\r\n")}\n\n${endless}\n${longest}\r\nlast`;
  expect(await read(text, "some.ndjson")).toEqual([
    ...lines.map((line, n) => ({ line: n + 1, text: line })),
    { line: 3_002, fault: `is longer than ${maxLineBytes} bytes` },
    { line: 3_003, text: longest },
    { line: 3_004, text: "last" },
  ]);
});
