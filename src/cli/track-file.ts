import { createReadStream, statSync } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { type Options, parse } from "csv-parse";
import { isBlank, type Line, linesIn, maxLineBytes } from "../control/split-lines.ts";
import { CommandFailed, fileFailure } from "./io.ts";

interface RegistrationFile {
  /** Bytes; null when that is not known. */
  readonly size: number | null;
  read(): number;
  /**
   * JSON without line breaks, in the order of the file, read on demand. The relay validates it.
   * Throws {@link CommandFailed} when the file cannot be read.
   */
  readonly lines: AsyncIterable<Line>;
}

/**
 * The file at `path`, or standard input for `-`. CSV or NDJSON by its name (`.csv`, `.ndjson`,
 * `.jsonl`), else by its first character.
 */
export function openRegistrationFile(path: string): RegistrationFile {
  const name = path === "-" ? "standard input" : path;
  const size = path === "-" ? null : sizeOf(path);
  let read = 0;

  async function* chunks(): AsyncGenerator<Uint8Array, void> {
    try {
      // Opened on first read: the error of a stream without a reader would crash the process.
      for await (const chunk of (path === "-"
        ? process.stdin
        : createReadStream(path)) as AsyncIterable<Uint8Array>) {
        read += chunk.length;
        yield chunk;
      }
    } catch (error) {
      throw fileFailure(`cannot read ${name}`, error);
    }
  }

  async function* lines(): AsyncGenerator<Line, void> {
    const { first, all } = await withHead(chunks());
    const named = /\.(csv|ndjson|jsonl)$/i.exec(path)?.[1]?.toLowerCase();
    // No name of a column begins with a bracket.
    const start = first.trimStart().charAt(0);
    if (named === undefined && start === "[")
      throw new CommandFailed(
        `${name} holds a JSON list, and not one object a line: "jq -c '.[]'" makes such lines`,
      );
    yield* (named ?? (start === "{" ? "ndjson" : "csv")) === "csv"
      ? csvLines(all, first)
      : jsonLines(all);
  }

  return { size, read: () => read, lines: lines() };
}

function sizeOf(path: string): number | null {
  try {
    const found = statSync(path);
    return found.isFile() ? found.size : null;
  } catch (error) {
    throw fileFailure(`cannot read ${path}`, error);
  }
}

/** `first`: the first line that is not empty, or more. `all`: every chunk, those of `first` too. */
async function withHead(
  chunks: AsyncGenerator<Uint8Array, void>,
): Promise<{ first: string; all: AsyncIterable<Uint8Array> }> {
  const read: Uint8Array[] = [];
  let first = "";
  while (!first.trimStart().includes("\n") && first.length <= maxLineBytes) {
    const { value } = await chunks.next();
    if (value === undefined) break;
    read.push(value);
    first = new TextDecoder().decode(Buffer.concat(read));
  }
  async function* all(): AsyncGenerator<Uint8Array, void> {
    yield* read;
    yield* chunks;
  }
  return { first, all: all() };
}

async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line, void> {
  for await (const line of linesOf(chunks)) if (!isBlank(line)) yield line;
}

async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line, void> {
  let rest: Uint8Array = new Uint8Array();
  let next = 1;
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk]);
    const end = bytes.lastIndexOf("\n") + 1;
    next = yield* linesIn(bytes.subarray(0, end), next);
    // One byte more than the longest line and its CR: a line that is too long stays so, and is not
    // kept whole.
    rest = bytes.subarray(end, end + maxLineBytes + 2);
  }
  yield* linesIn(rest, next);
}

const known = ["account", "wamid", "id", "reference", "conversationId", "sentAt"];
const metadata = "metadata.";

function columnsOf(line: number, fields: readonly string[]): string[] {
  const columns = fields.map((name) => name.trim());
  const strange = columns.filter(
    (name) =>
      !known.includes(name) && !(name.startsWith(metadata) && name.length > metadata.length),
  );
  if (strange.length > 0) {
    const named = strange.map((name) => JSON.stringify(name)).join(", ");
    throw new CommandFailed(
      `line ${line} has unknown columns: ${named}; there are ${known.join(", ")} and metadata.<key>`,
    );
  }
  if (!columns.includes("wamid")) throw new CommandFailed(`line ${line} lacks the column wamid`);
  const twice = columns.find((name, index) => columns.indexOf(name) !== index);
  if (twice !== undefined) throw new CommandFailed(`line ${line} has the column ${twice} twice`);
  return columns;
}

function fileLine(columns: readonly string[], line: number, fields: readonly string[]): Line {
  if (fields.length !== columns.length)
    return { line, fault: `has ${fields.length} fields, not ${columns.length} as the first line` };
  const facts: Record<string, string> = {};
  const pairs: [string, string][] = [];
  for (const [index, name] of columns.entries()) {
    const value = fields[index] as string;
    if (value === "") continue;
    if (name.startsWith(metadata)) pairs.push([name.slice(metadata.length), value]);
    else facts[name] = value;
  }
  return {
    line,
    text: JSON.stringify(
      pairs.length === 0 ? facts : { ...facts, metadata: Object.fromEntries(pairs) },
    ),
  };
}

/** Faults after which it is unknown where the next record begins. */
const stops: Readonly<Record<string, string>> = {
  CSV_INVALID_CLOSING_QUOTE: "has text after a closing quote",
  CSV_QUOTE_NOT_CLOSED: "has a quote that is never closed",
  CSV_MAX_RECORD_SIZE: `is longer than ${maxLineBytes} bytes; is a quote missing?`,
};

/**
 * Registrations from CSV (RFC 4180) whose first record names the columns, by the line in which each
 * begins. An empty field is left out. The separator is a comma, or a semicolon (as spreadsheets
 * write it where the comma is the decimal sign) when `first` has that first. A quote inside an
 * unquoted field is a fault of its record alone; any other fault is the last record.
 */
async function* csvLines(
  chunks: AsyncIterable<Uint8Array>,
  first: string,
): AsyncGenerator<Line, void> {
  const faults: { readonly line: number; readonly fault: string }[] = [];
  let columns: readonly string[] | null = null;
  let isStopped = false;
  /** csv-parse counts a CRLF inside quotes as two lines. */
  let surplus = 0;
  let endedAt = 0;

  async function* texts(): AsyncGenerator<string, void> {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    try {
      for await (const chunk of chunks) {
        if (isStopped) return;
        yield decoder.decode(chunk, { stream: true });
      }
      yield decoder.decode();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw new CommandFailed("the file is not in UTF-8; in a spreadsheet, save it as “CSV UTF-8”");
    }
  }

  const options: Options<Line, string[]> = {
    delimiter: /[,;]/.exec(first)?.[0] ?? ",",
    record_delimiter: ["\n", "\r\n"],
    relax_column_count: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    max_record_size: maxLineBytes,
    on_record(fields, { lines }) {
      if (isStopped) return null;
      const text = fields.join();
      surplus += text.split("\r\n").length - 1;
      endedAt = lines - surplus;
      const line = endedAt + 1 - text.split("\n").length;
      if (columns !== null) return fileLine(columns, line, fields);
      columns = columnsOf(line, fields);
      return null;
    },
    on_skip(error) {
      if (error === undefined || isStopped) return;
      const stop = stops[error.code];
      // Without names of columns, nothing else can be read.
      isStopped = stop !== undefined || columns === null;
      if (stop === undefined)
        faults.push({
          line: Number(error["lines"]) - surplus,
          fault: "has a quote inside a field without quotes",
        });
      else faults.push({ line: endedAt + 1, fault: `${stop}; nothing after it was read` });
    },
  };
  const parser = parse(options as unknown as Options);
  pipeline(Readable.from(texts()), parser, () => {});
  for await (const record of parser as AsyncIterable<Line>) {
    while (faults[0] !== undefined && faults[0].line < record.line) yield faults.shift() as Line;
    yield record;
  }
  const [fault] = faults;
  if (columns === null)
    throw new CommandFailed(
      fault === undefined
        ? "the file is empty: its first line names the columns, such as wamid,reference"
        : `line ${fault.line} ${fault.fault}`,
    );
  yield* faults;
}
