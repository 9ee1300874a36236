import fc from "fast-check";
import { expect, test } from "vitest";
import { type CsvRecord, createCsvReader } from "../../../src/cli/track-file.ts";

function read(text: string, cuts: readonly number[] = []): CsvRecord[] {
  const reader = createCsvReader();
  const records: CsvRecord[] = [];
  let from = 0;
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    records.push(...reader.push(text.slice(from, Math.max(from, cut))));
    from = Math.max(from, cut);
  }
  records.push(...reader.push(text.slice(from)), ...reader.end());
  return records;
}

const fieldsOf = (records: readonly CsvRecord[]) => records.map((record) => ("fields" in record ? record.fields : record));

const fields = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.array(fc.constantFrom(",", ";", '"', "\n", "\r", "\r\n", "a", " ", "é"), { maxLength: 6 }).map((parts) => parts.join("")),
);
const quoted = (field: string) => `"${field.replaceAll('"', '""')}"`;

test("what is written as RFC 4180 has it comes back, whatever is in it, however it is cut", () => {
  const table = fc.array(fc.array(fc.tuple(fields, fc.boolean()), { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(
      table,
      fc.constantFrom(",", ";"),
      fc.constantFrom("\n", "\r\n"),
      fc.boolean(),
      fc.array(fc.nat({ max: 200 }), { maxLength: 10 }),
      (rows, separator, newline, endsWithNewline, cuts) => {
        const header = ["first", "second"];
        const text =
          [
            header.join(separator),
            ...rows.map((row) =>
              row
                // A single empty field without quotes is an empty line.
                .map(([field, always]) => (always || row.length === 1 || /[",;\r\n]/.test(field) ? quoted(field) : field))
                .join(separator),
            ),
          ].join(newline) + (endsWithNewline ? newline : "");
        expect(fieldsOf(read(text, cuts))).toEqual([header, ...rows.map((row) => row.map(([field]) => field))]);
      },
    ),
    { numRuns: 2_000 },
  );
});

test("any text is read without an exception, the same however it is cut, and no record is lost after a fault", () => {
  const soup = fc
    .array(fc.constantFrom(",", ";", '"', "\n", "\r", "\r\n", "a", "é", '""'), { maxLength: 60 })
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(soup, fc.array(fc.nat({ max: 80 }), { maxLength: 10 }), (text, cuts) => {
      const whole = read(text);
      expect(read(text, cuts)).toEqual(whole);
      for (const [index, { line }] of whole.entries()) expect(line).toBeGreaterThan(whole[index - 1]?.line ?? 0);
    }),
    { numRuns: 2_000 },
  );
});

test("numbers of lines, empty lines, records over several lines", () => {
  expect(read('a,b\r\n\r\n1,"x\ny"\n\n"",\n3,4')).toEqual([
    { line: 1, fields: ["a", "b"] },
    { line: 3, fields: ["1", "x\ny"] },
    { line: 6, fields: ["", ""] },
    { line: 7, fields: ["3", "4"] },
  ]);
});

test.each([
  ['a"b', "has a quote inside a field without quotes"],
  ['"a"b', 'has "b" after a closing quote'],
  ["a\rb", "has a carriage return outside quotes"],
  ["x".repeat(70_000), "is longer than 65536 characters"],
])("a fault is of its own line: %.10s", (bad, fault) => {
  expect(read(`h,k\n${bad},1\ngood,2\n`)).toEqual([
    { line: 1, fields: ["h", "k"] },
    { line: 2, fault },
    { line: 3, fields: ["good", "2"] },
  ]);
});

test("a quote that is never closed", () => {
  expect(read('h,k\n1,"open\n2,3\n')).toEqual([
    { line: 1, fields: ["h", "k"] },
    { line: 2, fault: "has a quote that is never closed" },
  ]);
  const [, long, ...after] = read(`h,k\n1,"${"x\n".repeat(40_000)}`);
  expect(long).toEqual({ line: 2, fault: "is longer than 65536 characters; is a quote missing?" });
  expect(after.length).toBeGreaterThan(0);
});
