import { createReadStream, statSync } from "node:fs";
import { createLineSplitter } from "../control/split-lines.ts";
import { CommandFailed } from "./io.ts";

interface RegistrationFile {
  /** Bytes; null when that is not known. */
  readonly size: number | null;
  /** Bytes read so far. */
  read(): number;
  /** Lines in the order of the file, read on demand. Throws {@link CommandFailed} when the file cannot be read. */
  readonly lines: AsyncIterable<FileLine>;
}

interface LineReader {
  push(chunk: Uint8Array): Iterable<FileLine>;
  end(): Iterable<FileLine>;
}

/** Longest line of NDJSON that the relay takes, in bytes. */
const maxLineBytes = 64 * 1024;

/** The file at `path`, or standard input for `-`. CSV or NDJSON by its name (`.csv`, `.ndjson`, `.jsonl`), else by its first character. */
export function openRegistrationFile(path: string): RegistrationFile {
  const name = path === "-" ? "standard input" : path;
  const size = path === "-" ? null : sizeOf(path);
  let read = 0;

  async function* lines(): AsyncGenerator<FileLine, void> {
    let reader: LineReader | null = readerByName(path);
    // Opened on first read: the error of a stream without a reader would crash the process.
    const source: AsyncIterable<Uint8Array> = path === "-" ? process.stdin : createReadStream(path);
    for await (const chunk of chunksOf(source, name)) {
      read += chunk.length;
      reader ??= readerByContent(chunk);
      yield* reader.push(chunk);
    }
    yield* (reader ?? createCsvLines()).end();
  }

  return { size, read: () => read, lines: lines() };
}

async function* chunksOf(source: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Uint8Array, void> {
  try {
    yield* source;
  } catch (error) {
    throw new CommandFailed(`${name} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

function sizeOf(path: string): number | null {
  try {
    const found = statSync(path);
    return found.isFile() ? found.size : null;
  } catch (error) {
    throw new CommandFailed(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

function readerByName(path: string): LineReader | null {
  if (/\.csv$/i.test(path)) return createCsvLines();
  return /\.(ndjson|jsonl)$/i.test(path) ? createJsonLines() : null;
}

/** No name of a column begins with a brace. */
function readerByContent(chunk: Uint8Array): LineReader {
  const text = new TextDecoder().decode(chunk).trimStart();
  return text.startsWith("{") ? createJsonLines() : createCsvLines();
}

function createJsonLines(): LineReader {
  const splitter = createLineSplitter(maxLineBytes);
  const read = function* (lines: ReturnType<typeof splitter.push>): Generator<FileLine> {
    for (const line of lines) yield "text" in line ? { line: line.number, json: line.text } : { line: line.number, fault: line.fault };
  };
  return { push: (chunk) => read(splitter.push(chunk)), end: () => read(splitter.end()) };
}

function createCsvLines(): LineReader {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const registrations = createCsvRegistrations();
  const decoded = (chunk?: Uint8Array): string => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new CommandFailed("the file is not in UTF-8; in a spreadsheet, save it as “CSV UTF-8”");
    }
  };
  return {
    push: (chunk) => registrations.push(decoded(chunk)),
    *end() {
      yield* registrations.push(decoded());
      yield* registrations.end();
    },
  };
}

const known = ["account", "wamid", "id", "reference", "conversationId", "sentAt"];
const metadata = "metadata.";

/** Registrations from CSV whose first record names the columns. An empty field is left out. */
function createCsvRegistrations() {
  const reader = createCsvReader();
  let columns: readonly string[] | null = null;

  function* read(records: Iterable<CsvRecord>): Generator<FileLine> {
    for (const record of records) {
      if (columns === null) {
        columns = columnsOf(record);
        continue;
      }
      if ("fault" in record) yield record;
      else yield fileLine(columns, record.line, record.fields);
    }
  }

  return {
    push: (text: string): Iterable<FileLine> => read(reader.push(text)),
    *end(): Iterable<FileLine> {
      yield* read(reader.end());
      if (columns === null) throw new CommandFailed("the file is empty: its first line names the columns, such as account,wamid,reference");
    },
  };
}

/** Throws {@link CommandFailed} before anything is registered. */
function columnsOf(record: CsvRecord): string[] {
  if ("fault" in record) throw new CommandFailed(`line ${record.line} ${record.fault}`);
  const columns = record.fields.map((name) => name.trim());
  const strange = columns.filter((name) => !known.includes(name) && !(name.startsWith(metadata) && name.length > metadata.length));
  if (strange.length > 0) {
    const named = strange.map((name) => JSON.stringify(name)).join(", ");
    throw new CommandFailed(
      `line ${record.line} names no columns that are known: ${named}; there are ${known.join(", ")} and metadata.<key>`,
    );
  }
  const missing = ["account", "wamid"].filter((name) => !columns.includes(name));
  if (missing.length > 0) throw new CommandFailed(`line ${record.line} names the columns, and lacks ${missing.join(" and ")}`);
  const twice = columns.find((name, index) => columns.indexOf(name) !== index);
  if (twice !== undefined) throw new CommandFailed(`line ${record.line} names the column ${twice} twice`);
  return columns;
}

function fileLine(columns: readonly string[], line: number, fields: readonly string[]): FileLine {
  if (fields.length !== columns.length) return { line, fault: `has ${fields.length} fields, not ${columns.length} as the first line` };
  const facts: Record<string, string> = {};
  const pairs: [string, string][] = [];
  for (const [index, name] of columns.entries()) {
    const value = fields[index] as string;
    if (value === "") continue;
    if (name.startsWith(metadata)) pairs.push([name.slice(metadata.length), value]);
    else facts[name] = value;
  }
  return { line, json: JSON.stringify(pairs.length === 0 ? facts : { ...facts, metadata: Object.fromEntries(pairs) }) };
}

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

/** A line of the file as JSON without line breaks, or why it cannot be read. The relay validates the JSON. */
export type FileLine = { readonly line: number; readonly json: string } | { readonly line: number; readonly fault: string };
