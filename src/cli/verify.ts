import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { CommandFailed, fileFailure, type Io } from "./io.ts";
import { several, withConfigOption } from "./options.ts";
import type { OptionsOf } from "./typed.ts";
import {
  joinHeaders,
  NotARequest,
  parseHeader,
  parseRawRequest,
  type RawRequest,
} from "./verify/captured.ts";
import type { NamedSecret } from "./verify/report.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => verify(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withConfigOption(command)
    .option("--source <name>", "verify it as this source of the settings would")
    .option(
      "--secret-env <name>",
      "the secret is in this environment variable; may be repeated",
      several,
    )
    .option("--secret-file <file>", "the secret is in this file; may be repeated", several)
    .option(
      "--request <file>",
      "the captured request: request line, headers, blank line, body; - for standard input",
    )
    .option("--body <file>", "only the captured body, byte for byte; - for standard input")
    .option(
      "-H, --header <header>",
      'a header of the request, as "name: value"; may be repeated',
      several,
    )
    .option("--method <method>", "the request's method (default: as captured, or POST)")
    .option(
      "--url <url>",
      "the URL that the request was sent to, for schemes that sign it (default: as captured)",
    )
    .option("--json", "print what was found as JSON")
    .addHelpText(
      "after",
      `
Without --source it finds the settings that verify the request. With --source it applies those of the source. A body
of Meta's is listed with its items: their events, numbers and accounts, or why one would be quarantined or unassigned.
Meta's handshake (GET with hub.verify_token) is checked against the source's verifyTokens, or the given secrets.

Exit code 1: nothing verifies the request; hints name what was noticed.

Examples:
  wamid-relay verify --secret-env WEBHOOK_SECRET --request captured.http
  wamid-relay verify --secret-env WEBHOOK_SECRET --body body.json -H "x-acme-signature: 5d41…"
  wamid-relay verify --source wa --request captured.http`,
    );
}

async function verify(command: Command, options: Options, io: Io): Promise<void> {
  if ((options.request === undefined) === (options.body === undefined))
    command.error("error: give --request or --body");
  const secrets = readSecrets(command, options, io);
  if ((secrets.length === 0) === (options.source === undefined))
    command.error("error: give --source, or the secret with --secret-env or --secret-file");

  const request = await readRequest(command, options, io);
  const { verifyAsSource, verifyWithSecrets } = await import("./verify/run.ts");
  if (options.source === undefined) verifyWithSecrets(secrets, request, options, io);
  else verifyAsSource(options.source, request, options, io);
}

function readSecrets(command: Command, options: Options, io: Io): NamedSecret[] {
  const { secretEnv = [], secretFile = [] } = options;
  const fromEnvironment = secretEnv.map((name): NamedSecret => {
    const text = io.env[name];
    if (text === undefined || text === "")
      command.error(`error: the environment variable ${name} is not set`);
    return { name, variable: name, text };
  });
  const fromFiles = secretFile.map((file): NamedSecret => {
    // Editors and echo end a file with a line break that is not part of the secret.
    const text = readBytes(file)
      .toString("utf8")
      .replace(/\r?\n$/, "");
    if (text === "") throw new CommandFailed(`${file} is empty`);
    return { name: `in ${file}`, variable: "WEBHOOK_SECRET", text };
  });
  return [...fromEnvironment, ...fromFiles];
}

async function readRequest(command: Command, options: Options, io: Io): Promise<RawRequest> {
  const file = options.request ?? options.body ?? "-";
  const bytes = file === "-" ? await io.readStdin() : readBytes(file);
  let captured: RawRequest;
  try {
    captured =
      options.request === undefined
        ? { method: "POST", url: "/", headers: {}, body: bytes }
        : parseRawRequest(bytes);
  } catch (error) {
    if (error instanceof NotARequest) throw new CommandFailed(`${file}: ${error.message}`);
    throw error;
  }
  // Node gives a header's bytes as one character each; the terminal gives UTF-8.
  const given = (options.header ?? []).map((line) => {
    try {
      return parseHeader(Buffer.from(line, "utf8").toString("latin1"));
    } catch (error) {
      return command.error(`error: -H: ${(error as Error).message}`);
    }
  });
  return {
    method: options.method ?? captured.method,
    url: options.url ?? captured.url,
    headers: { ...captured.headers, ...joinHeaders(given) },
    body: captured.body,
  };
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw fileFailure(`cannot read ${file}`, error);
  }
}
