import { createReadStream, statSync } from "node:fs";
import { createLineSplitter } from "../../event/split-lines.ts";
import { CommandFailed } from "../io.ts";
import { createCsvRegistrations } from "./csv-registrations.ts";
import type { FileLine } from "./file-line.ts";

interface RegistrationFile {
  /** Bytes; null when that is not known. */
  readonly size: number | null;
  /** Bytes read so far. */
  read(): number;
  /** Some lines at a time, read as they are asked for. Throws {@link CommandFailed} when the file cannot be read. */
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
    // Opened when it is read: a stream that nobody reads yet would throw its error at everybody.
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
