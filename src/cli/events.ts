import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import type { AnswerOf, RelayEventDetail } from "../client/relay-client.ts";
import type { DeliveryState } from "../model/states.ts";
import type { ControlClient } from "./control-client.ts";
import { chosen, eventFilters, withFilters } from "./filters.ts";
import { CommandFailed, fileFailure, type Io } from "./io.ts";
import { count, givenArgument, ownFixtures, withRelayOptions } from "./options.ts";
import { print, timeText } from "./output.ts";
import { printList, withRelay } from "./relay.ts";
import type { OptionsOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  buildList(command.command("list"), io);
  buildShow(command.command("show"), io);
  buildSave(command.command("save"), io);
}

function buildList(command: Command, io: Io): void {
  withFilters(withRelayOptions(command).description("list events, newest first"), eventFilters)
    .option("--limit <count>", "most rows", count, 50)
    .option("--before <seq>", "only events before this one: next of the previous page", count)
    .option("--show-pii", "show wamids in clear; they contain people's phone numbers")
    .option("--json", "print {data, next} as JSON; next is for --before, null at the end")
    .addHelpText(
      "after",
      `
A note on standard error suggests the nearest known word for an unknown kind, status, source or account.

Examples:
  wamid-relay events list --since 2h --status failed
  wamid-relay events list --disposition quarantined --limit 200
  wamid-relay events list --query wamid:caa16f1062d2
  wamid-relay events list --json | jq -r '.data[].id'
  RELAY_TOKEN=… wamid-relay events list --relay http://127.0.0.1:9090`,
    )
    .action(async (options) => {
      const filter = chosen(command, options, eventFilters);
      await printList(
        command,
        options,
        io,
        async (client, place) => {
          const found = await client.listEvents({ ...filter, ...place });
          if (found.data.length === 0 && filter.q !== undefined && place.before === undefined)
            await noteMessages(client, { q: filter.q, account: filter.account }, io);
          return found;
        },
        "older ones",
        {
          "RECEIVED (UTC)": ({ receivedAt }) => timeText(receivedAt),
          SEQ: ({ seq }) => seq,
          EVENT: ({ event }) => event,
          STATUS: ({ status, errorCode }) =>
            [status, errorCode].filter((word) => word !== null).join(" "),
          DISPOSITION: ({ disposition }) => disposition,
          DELIVERIES: ({ deliveries }) => deliveriesText(deliveries),
          ABOUT: ({ subject }) => subject?.key ?? null,
          ACCOUNT: ({ account }) => account,
          // A quarantined body has no id.
          ID: ({ id, fault }) => id ?? fault,
        },
      );
    });
}

/** A message may be registered, and no event have come about it. */
async function noteMessages(
  client: ControlClient,
  of: { readonly q: string; readonly account: string | undefined },
  io: Io,
): Promise<void> {
  const { data } = await client.listMessages({ ...of, limit: 3 });
  for (const { wamid, status } of data)
    io.err(
      `note: a message has this name, ${status ?? "without a status"}: wamid-relay explain ${wamid}`,
    );
}

function deliveriesText(counts: AnswerOf<"listEvents">["data"][number]["deliveries"]): string {
  const states = [
    "delivered",
    "dead",
    "waiting",
    "held",
  ] as const satisfies readonly DeliveryState[];
  return states
    .flatMap((state) => (counts[state] === undefined ? [] : [`${counts[state]} ${state}`]))
    .join(", ");
}

function withEvent(command: Command) {
  return withRelayOptions(command)
    .argument("<event>", "event id, or seq (the number that events list shows)", givenArgument)
    .option("--account <name>", "the account, if several have an event of this id");
}

async function readEvent(
  command: Command,
  id: string,
  options: OptionsOf<typeof withEvent>,
  io: Io,
  showPii?: boolean,
) {
  const { orLookUp } = await import("./control-client.ts");
  const unknown = orLookUp(
    '"wamid-relay events list --query" finds events by id, reference, user id or the last digits of a phone',
  );
  return withRelay(command, { ...options, showPii }, io, "read", (client) =>
    client.getEvent({ id, account: options.account }).catch(unknown),
  );
}

function buildShow(command: Command, io: Io): void {
  withEvent(command)
    .description(
      "show one event: its origin and secret, its transition, the verdict of each route, each attempt, and the body",
    )
    .option("--body", "print only the body, byte for byte as it was received (not masked)")
    .option("--show-pii", "show wamids and phone numbers in clear")
    .option("--json", "print it as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay events show 01998d3e-7c1a-7000-8000-00000000002a
  wamid-relay events show 1234 --show-pii
  wamid-relay events show 1234 --body > body.json`,
    )
    .action(async (id, options) => {
      const event = await readEvent(command, id, options, io, options.body ?? options.showPii);
      if (options.body === true) {
        process.stdout.write(Buffer.from(event.body, "base64"));
        return;
      }
      const { eventDetailLines } = await import("./story-lines.ts");
      print(io, options, event, () => eventDetailLines(event, options.showPii !== true));
    });
}

function buildSave(command: Command, io: Io): void {
  withEvent(command)
    .description(
      "save an event as a fixture for trigger, with phones, wamids, names and ids of people replaced",
    )
    .option(
      "--out <file>",
      "write it to this file; - prints it (default: fixtures/<kind>.<status>.json)",
    )
    .option(
      "--salt <text>",
      "over several saves, the same salt replaces the same by the same; keep it secret (default: a new one)",
    )
    .option("--force", "replace the file if it exists")
    .option("--json", "print {file, replaced} as JSON")
    .addHelpText(
      "after",
      `
The command also replaces phones and names in free text if they appear elsewhere in the event. Other names in free text
stay: read the file before you share it.

Examples:
  wamid-relay events save 1234
  wamid-relay events save 01998d3e-7c1a-7000-8000-00000000002a --out fixtures/button-reply.json --salt "our team's"`,
    )
    .action(async (id, options) => {
      if (options.out === "-" && options.json === true)
        command.error("error: --out - and --json both want standard output");
      const event = await readEvent(command, id, options, io, true);
      const { anonymise } = await import("../sandbox/fixtures/anonymise.ts");
      const wamids = event.subject?.type === "message" ? [event.subject.key] : [];
      const { text, replaced } = anonymise(await jsonOf(event), {
        salt: options.salt ?? randomBytes(16).toString("hex"),
        wamids,
      });
      if (options.out === "-") {
        process.stdout.write(text);
        return;
      }
      const file = options.out ?? join(ownFixtures, `${fileName(event)}.json`);
      if (options.force !== true && existsSync(file))
        throw new CommandFailed(`${file} exists; --force replaces it, --out names another`);
      try {
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, text);
      } catch (error) {
        throw fileFailure(`cannot write ${file}`, error);
      }
      const counts = Object.entries(replaced).map(
        ([sort, count]) => `${count} ${count === 1 ? sort.slice(0, -1) : sort}`,
      );
      print(io, options, { file, replaced }, () => [
        `saved ${file}; replaced: ${counts.join(", ")}`,
      ]);
      if (options.json !== true)
        io.err(
          "note: look it over before you share it; free text may hold personal data that was not found",
        );
    });
}

/** A compressed body must not become larger than what the relay itself takes in one request. */
const longestBytes = 8 * 1024 * 1024;

/**
 * Names can be found in JSON only, by their keys. A fixture has no headers: a compressed body is
 * saved as the text it stands for.
 */
async function jsonOf({ headers, body }: RelayEventDetail): Promise<string> {
  const { decodeAnswer } = await import("../service/answers.ts");
  const { bytes } = decodeAnswer(
    { status: 200, headers, bytes: Buffer.from(body, "base64") },
    longestBytes,
  ).answer;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    JSON.parse(text);
    return text;
  } catch {
    throw new CommandFailed(
      "the body is not JSON, so names cannot be found in it; events show --body gives the bytes",
    );
  }
}

/** Kinds come from outside: nothing of them leads out of the folder. */
function fileName({ event, status }: RelayEventDetail): string {
  const name = [event ?? "event", ...(status === null ? [] : [status])].join(".");
  return name.replace(/[^A-Za-z0-9._-]/g, "-").replace(/^\.+/, "") || "event";
}
