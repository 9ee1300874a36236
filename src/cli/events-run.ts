import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import type { Command } from "commander";
import { eventDetailSchema, eventPage, maskedDetail, maskedEvent, readAnswer, type ShownEventDetail } from "./control-views.ts";
import { eventLines, unseenLine } from "./event-report.ts";
import type { EventsListOptions, EventsSaveOptions, EventsShowOptions } from "./events.ts";
import { CommandFailed, type Io } from "./io.ts";
import { printableJson, privateView, tableLines, timeText } from "./output.ts";
import { expectDone, readPages, timeFilter, withReading } from "./reach-relay.ts";
import { ownFixtures } from "./trigger.ts";

/** Prints the events that match, newest first. */
export async function listEvents(command: Command, options: EventsListOptions, io: Io): Promise<void> {
  const { event, source, account, status, disposition, wamid, before, limit } = options;
  const query = {
    event,
    source,
    account,
    status,
    disposition,
    wamid,
    before: before?.toString(),
    ...timeFilter(command, options, Date.now()),
  };
  const found = await withReading(command, options, io, (client) => readPages(client, "/v1/events", query, limit, eventPage));
  const view = privateView(options.showPii);
  const shown = found.data.map((each) => maskedEvent(each, view));
  if (options.json === true) {
    io.out(printableJson({ data: shown, next: found.next, unseen: found.unseen }));
    return;
  }
  const rows = shown.map((each) => [
    timeText(each.receivedAt),
    String(each.seq),
    each.event ?? "",
    each.status ?? "",
    each.disposition,
    each.subject?.key ?? "",
    each.id ?? "",
  ]);
  for (const line of tableLines(["RECEIVED (UTC)", "SEQ", "EVENT", "STATUS", "DISPOSITION", "ABOUT", "ID"], rows)) io.out(line);
  if (found.next !== null) io.err(`there are older ones: --before ${found.next}, or a greater --limit`);
  if (found.unseen > 0) io.err(unseenLine(found.unseen));
}

/** Prints all about one event, or its body as it was received. */
export async function showEvent(command: Command, id: string, options: EventsShowOptions, io: Io): Promise<void> {
  const event = await readEvent(command, id, options, io);
  if (options.body === true) {
    process.stdout.write(Buffer.from(event.body, "base64"));
    return;
  }
  const view = privateView(options.showPii);
  if (options.json === true) {
    io.out(printableJson(maskedDetail(event, view)));
    return;
  }
  for (const line of eventLines(event, view)) io.out(line);
}

function readEvent(command: Command, id: string, options: EventsShowOptions | EventsSaveOptions, io: Io): Promise<ShownEventDetail> {
  const query = options.account === undefined ? "" : `?${new URLSearchParams({ account: options.account })}`;
  return withReading(command, options, io, async (client) =>
    readAnswer(eventDetailSchema, expectDone(await client.request("GET", `/v1/events/${encodeURIComponent(id)}${query}`))),
  );
}

/** Writes a captured event as a fixture without personal data. */
export async function saveEvent(command: Command, id: string, options: EventsSaveOptions, io: Io): Promise<void> {
  if (options.salt === "") command.error("error: --salt is empty");
  if (options.out === "-" && options.json === true) command.error("error: --out - and --json both want standard output");
  const event = await readEvent(command, id, options, io);
  const { anonymise } = await import("../sandbox/fixtures/anonymise/anonymise.ts");
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
    const counts = Object.entries(replaced).map(([sort, count]) => `${count} ${count === 1 ? sort.slice(0, -1) : sort}`);
    io.out(`saved ${file}; replaced: ${counts.join(", ")}`);
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
