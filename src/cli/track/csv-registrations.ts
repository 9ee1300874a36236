import { CommandFailed } from "../io.ts";
import { type CsvRecord, createCsvReader } from "./csv.ts";
import type { FileLine } from "./file-line.ts";

const known = ["account", "wamid", "id", "reference", "conversationId", "sentAt"];
const metadata = "metadata.";

/** Registrations from CSV whose first record names the columns. An empty field is a fact that is not told. */
export function createCsvRegistrations() {
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
