/** `line`: where the record begins, from 1. A record in quotes can go over several lines. */
export type CsvRecord = { readonly line: number; readonly fields: readonly string[] } | { readonly line: number; readonly fault: string };

interface CsvReader {
  /** The records that end in this piece of text, empty lines left out. To be read to the end before the next push. */
  push(text: string): Iterable<CsvRecord>;
  end(): Iterable<CsvRecord>;
}

/** Longest record taken, in UTF-16 units: what the relay takes as a line. */
const maxRecord = 64 * 1024;

/**
 * Reads CSV as RFC 4180 has it, in any pieces: fields in double quotes may hold separators, line breaks and doubled quotes;
 * a quote inside a field without quotes is a fault. The separator is a comma, or a semicolon (as spreadsheets write it
 * where the comma is the decimal sign) when the first record has that first. After a fault reading goes on with the next line.
 */
export function createCsvReader(): CsvReader {
  let separator: string | null = null;
  let line = 1;
  let startedAt = 1;
  let fields: string[] = [];
  let field = "";
  let size = 0;
  let fault: string | null = null;
  /** `closed`: after a quote inside a quoted field, which ends it unless another follows. */
  let state: "start" | "plain" | "quoted" | "closed" = "start";
  let afterReturn = false;

  function finish(): CsvRecord | null {
    const record: CsvRecord = fault === null ? { line: startedAt, fields: [...fields, field] } : { line: startedAt, fault };
    const isEmpty = fault === null && fields.length === 0 && field === "" && state === "start";
    // Known from the first record on.
    if (!isEmpty && fault === null) separator ??= ",";
    fields = [];
    field = "";
    size = 0;
    fault = null;
    state = "start";
    return isEmpty ? null : record;
  }

  const isSeparator = (char: string): boolean => (separator === null ? char === "," || char === ";" : char === separator);

  function take(char: string): void {
    size += 1;
    if (fault !== null) return;
    if (size > maxRecord) {
      fault = `is longer than ${maxRecord} characters${state === "quoted" ? "; is a quote missing?" : ""}`;
    } else if (state === "quoted") {
      if (char === '"') state = "closed";
      else field += char;
    } else if (isSeparator(char)) {
      separator ??= char;
      fields.push(field);
      field = "";
      state = "start";
    } else if (char === '"' && state === "start") state = "quoted";
    else if (char === '"' && state === "closed") {
      field += char;
      state = "quoted";
    } else if (state === "closed") fault = `has ${JSON.stringify(char)} after a closing quote`;
    else if (char === '"') fault = "has a quote inside a field without quotes";
    else {
      field += char;
      state = "plain";
    }
  }

  return {
    *push(text) {
      for (let at = 0; at < text.length; at += 1) {
        const char = text[at] as string;
        // Inside quotes line breaks are text, but not in a record that is given up.
        const isText = state === "quoted" && fault === null;
        if (afterReturn) {
          afterReturn = false;
          if (char !== "\n" && fault === null) fault = "has a carriage return outside quotes";
        }
        if (char === "\n") line += 1;
        if (isText || (char !== "\n" && char !== "\r")) take(char);
        else if (char === "\r") afterReturn = true;
        else {
          const record = finish();
          startedAt = line;
          if (record !== null) yield record;
        }
      }
    },
    *end() {
      if (state === "quoted" && fault === null) fault = "has a quote that is never closed";
      const record = finish();
      if (record !== null) yield record;
    },
  };
}
