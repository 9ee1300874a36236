import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import type { Command } from "commander";
import { eventDetailSchema, readAnswer, type ShownEventDetail } from "../control-views.ts";
import type { EventsSaveOptions } from "../events-save.ts";
import { CommandFailed, type Io } from "../io.ts";
import { expectDone, withReading } from "../reach-relay.ts";
import { ownFixtures } from "../trigger/list.ts";

/** Writes a captured event as a fixture, nobody's data in it. */
export async function saveEvent(command: Command, id: string, options: EventsSaveOptions, io: Io): Promise<void> {
  if (options.salt === "") command.error("error: --salt is empty");
  if (options.out === "-" && options.json === true) command.error("error: --out - and --json both want standard output");
  const query = options.account === undefined ? "" : `?${new URLSearchParams({ account: options.account })}`;
  const event = await withReading(command, options, io, async (client) =>
    readAnswer(eventDetailSchema, expectDone(await client.request("GET", `/v1/events/${encodeURIComponent(id)}${query}`))),
  );
  const { anonymise } = await import("../../sandbox/fixtures/anonymise/anonymise.ts");
  const wamids = event.subject?.type === "message" ? [event.subject.key] : [];
  const { text, replaced } = anonymise(jsonOf(event), { salt: options.salt ?? randomBytes(16).toString("hex"), wamids });
  if (options.out === "-") {
    process.stdout.write(text);
    return;
  }
  const file = options.out ?? join(ownFixtures, `${fileName(event)}.json`);
  if (options.force !== true && existsSync(file))
    throw new CommandFailed(`${file} is there already; --force writes over it, --out names another`);
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  } catch (error) {
    throw new CommandFailed(`cannot write ${file}: ${(error as Error).message}`);
  }
  if (options.json === true) io.out(JSON.stringify({ file, replaced }, null, 2));
  else {
    const told = Object.entries(replaced).map(([sort, count]) => `${count} ${count === 1 ? sort.slice(0, -1) : sort}`);
    io.out(`saved ${file}; replaced: ${told.join(", ")}`);
    io.err("note: look it over before you share it; free text may hold what nothing tells of");
  }
}

/** Names can be found in JSON only, by their keys. */
function jsonOf(event: ShownEventDetail): string {
  let text = decodedText(event);
  try {
    if (text !== null) JSON.parse(text);
  } catch {
    text = null;
  }
  if (text === null)
    throw new CommandFailed("the body is not JSON, so nobody can say where names are in it; events show --body gives the bytes");
  return text;
}

/** A compressed body must not become larger than what the relay itself takes in one request. */
const longestText = { maxOutputLength: 8 * 1024 * 1024 };
const decoders: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  gzip: (body) => gunzipSync(body, longestText),
  "x-gzip": (body) => gunzipSync(body, longestText),
  deflate: (body) => inflateSync(body, longestText),
  br: (body) => brotliDecompressSync(body, longestText),
};

/** A fixture has no headers, so the body of a compressed request is saved as the text it stands for. */
function decodedText({ headers, body, text }: ShownEventDetail): string | null {
  const decode = decoders[headers["content-encoding"]?.trim().toLowerCase() ?? ""];
  if (decode === undefined) return text;
  try {
    return decode(Buffer.from(body, "base64")).toString("utf8");
  } catch {
    return text;
  }
}

/** Kinds come from outside: nothing of them leads out of the folder. */
function fileName({ event, status }: ShownEventDetail): string {
  const name = [event ?? "event", ...(status === null ? [] : [status])].join(".");
  return name.replace(/[^A-Za-z0-9._-]/g, "-").replace(/^\.+/, "") || "event";
}
