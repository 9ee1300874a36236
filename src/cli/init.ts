import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import type { Command } from "commander";
import {
  answersOf,
  drivers,
  postgresUrl,
  providers,
  secretText,
  serviceName,
  type Terminal,
} from "./init/questions.ts";
import { envText, settingsText, type Variable } from "./init/texts.ts";
import { CommandFailed, fileFailure, type Io } from "./io.ts";
import { choice, givenArgument, httpUrl, portFrom } from "./options.ts";
import { print, shellWord } from "./output.ts";
import { type OptionsOf, typed } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) =>
    runInit(command, options, io, {
      input: process.stdin,
      output: process.stderr,
      isTerminal: process.stdin.isTTY,
    }),
  );
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return typed(command)
    .addOption(
      choice(
        "--provider <name>",
        "standard: a service with the relay's envelope; meta: Meta's Cloud API (default: standard)",
        providers,
      ),
    )
    .option(
      "--service-name <name>",
      "the service's short name: its events carry the header x-<name>-signature",
      serviceName,
    )
    .option("--downstream <url>", "where the relay delivers events", httpUrl)
    .addOption(
      choice(
        "--storage <driver>",
        "sqlite: one file and one process; postgres: any number of processes",
        drivers,
      ),
    )
    .option("--postgres-url <url>", "with --storage postgres: its address", postgresUrl)
    .option("--port <port>", "listen on this port", portFrom(1), 8080)
    .option(
      "--base-url <url>",
      "the service's base URL, to send messages and poll statuses",
      httpUrl,
    )
    .option(
      "--webhook-secret <text>",
      "the service's webhook secret (default: the environment variable WEBHOOK_SECRET)",
      secretText,
    )
    .option(
      "--app-secret <text>",
      "with --provider meta: the app secret (default: the environment variable META_APP_SECRET)",
      secretText,
    )
    .option(
      "--verify-token <text>",
      "with --provider meta: the verify token (default: a random one)",
      secretText,
    )
    .option(
      "--api-key <text>",
      "the service's API key (default: the environment variable MESSAGING_API_KEY)",
      secretText,
    )
    .option("--dir <folder>", "write the files to this folder", givenArgument, ".")
    .option("-y, --yes", "ask nothing, use the defaults")
    .option("--json", "print {settings, envFile, schema, placeholders, verifyToken, next} as JSON")
    .addHelpText(
      "after",
      `
Writes relay.yaml and .env (mode 0600). On a terminal it asks for what the options leave out. Secrets belong
into environment variables: other users of the machine can see options.

Variables in .env:
  RELAY_TOKEN                         a random token, 64 hex digits
  DOWNSTREAM_SECRET                   a random secret, for Standard Webhooks (whsec_ and base64) or signatures as Meta's
  META_VERIFY_TOKEN                   with --provider meta: a token for Meta's dashboard
  WEBHOOK_SECRET, META_APP_SECRET,
  MESSAGING_API_KEY                   yours, or a placeholder that config check, serve and doctor warn about
  POSTGRES_URL                        with --storage postgres

Examples:
  wamid-relay init
  wamid-relay init --service-name acme --downstream https://app.example/webhooks --dir /etc/wamid-relay
  WEBHOOK_SECRET=… wamid-relay init --yes
  META_APP_SECRET=… wamid-relay init --provider meta --downstream https://app.example/webhooks`,
    );
}

export async function runInit(
  command: Command,
  options: Options,
  io: Io,
  terminal: Terminal,
): Promise<void> {
  const folder = resolve(options.dir);
  const [settings, envFile, schema] = [
    join(folder, "relay.yaml"),
    join(folder, ".env"),
    join(folder, "relay.schema.json"),
  ];
  const existing = [settings, envFile].filter((path) => existsSync(path));
  if (existing.length > 0) throw alreadyThere(existing);
  const answers = await answersOf(command, options, terminal);
  const [{ isPrivateHost }, { placeholderPrefix }, { editorSchema }] = await Promise.all([
    import("../net/addresses.ts"),
    import("../model/secret.ts"),
    import("../config/json-schema.ts"),
  ]);
  const random = (bytes: number) => randomBytes(bytes).toString("hex");
  const variables = new Map<Variable, string>();
  const placeholders: string[] = [];
  /** One that the user has, from its option or the environment. */
  const setOwn = (name: Variable, option: string | undefined): void => {
    const given = option ?? givenVariable(io, name);
    if (given === undefined) placeholders.push(name);
    // Random, so that a relay that runs with the placeholder accepts no event that anybody else
    // signed.
    variables.set(name, given ?? `${placeholderPrefix}${random(16)}`);
  };
  const { port, baseUrl, apiKey } = options;
  const isMeta = answers.provider === "meta";
  const isCallable =
    !isMeta && (baseUrl ?? apiKey ?? givenVariable(io, "MESSAGING_API_KEY")) !== undefined;
  const verifyToken = isMeta ? (options.verifyToken ?? random(16)) : null;
  if (verifyToken === null) setOwn("WEBHOOK_SECRET", options.webhookSecret);
  else {
    setOwn("META_APP_SECRET", options.appSecret);
    variables.set("META_VERIFY_TOKEN", verifyToken);
  }
  if (isCallable) setOwn("MESSAGING_API_KEY", apiKey);
  variables.set("RELAY_TOKEN", random(32));
  const signing = isMeta ? random(32) : `whsec_${randomBytes(32).toString("base64")}`;
  variables.set("DOWNSTREAM_SECRET", signing);
  if (answers.storage === "postgres") variables.set("POSTGRES_URL", answers.postgresUrl);
  const database = join(folder, "data", "relay.db");
  const text = settingsText({
    ...answers,
    port,
    baseUrl,
    isCallable,
    database,
    isPrivate: isPrivateHost(answers.downstream),
  });
  const files: File[] = [
    { path: envFile, text: envText(variables), mode: 0o600, flag: "wx" },
    { path: settings, text, mode: 0o644, flag: "wx" },
    { path: schema, text: `${JSON.stringify(editorSchema(), null, 2)}\n`, mode: 0o644, flag: "w" },
  ];
  const { readSettings } = await import("./settings-option.ts");
  writeAll(folder, files, () => readSettings({ config: settings, envFile }, io));

  const steps = [
    ["config check", "check the settings"],
    ["serve", "start the relay"],
    [
      isMeta ? "trigger meta.status" : "trigger message.status",
      "in a second terminal: post a signed sample event",
    ],
  ].map(([words = "", note = ""]) => ({ command: commandText(words, settings, io), note }));
  const next = steps.map(({ command }) => command);
  const width = Math.max(...next.map(({ length }) => length));
  print(io, options, { settings, envFile, schema, placeholders, verifyToken, next }, () => [
    `Wrote ${fromHere(settings)}`,
    `Wrote ${fromHere(envFile)} with new secrets. Keep it out of version control.`,
    `Wrote ${fromHere(schema)} for editors.`,
    "",
    ...(placeholders.length === 0
      ? []
      : [
          `Put the real secrets into ${fromHere(envFile)} in place of: ${placeholders.join(", ")}.`,
          "",
        ]),
    ...(verifyToken === null
      ? []
      : [
          "While the relay runs, enter these in the dashboard of the app at Meta, under WhatsApp, Configuration:",
          "  Callback URL   the public https address of this relay, then /webhooks/wa",
          `  Verify token   ${verifyToken}`,
          "",
        ]),
    "Next:",
    ...steps.map(({ command, note }) => `  ${command.padEnd(width)}   # ${note}`),
  ]);
}

interface File {
  readonly path: string;
  readonly text: string;
  readonly mode: number;
  /** `wx` fails where the name is taken, also by what came during the questions. */
  readonly flag: "w" | "wx";
}

/** Leaves no file behind when one cannot be written, or `check` throws. */
function writeAll(folder: string, files: readonly File[], check: () => void): void {
  const written: string[] = [];
  try {
    mkdirSync(folder, { recursive: true });
    for (const { path, text, mode, flag } of files) {
      writeFileSync(path, text, { mode, flag });
      written.push(path);
    }
    check();
  } catch (error) {
    for (const path of written) rmSync(path, { force: true });
    if (error instanceof CommandFailed) throw error;
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && path !== undefined) throw alreadyThere([path]);
    throw fileFailure(`cannot write to ${fromHere(folder)}`, error);
  }
}

function alreadyThere(paths: readonly string[]): CommandFailed {
  const [verb, them] = paths.length === 1 ? ["exists", "it"] : ["exist", "them"];
  return new CommandFailed(
    `${paths.map(fromHere).join(" and ")} already ${verb}; move ${them} away, or give --dir another folder`,
  );
}

/** Relative to the working directory where it is below it. */
function fromHere(path: string): string {
  const way = relative(process.cwd(), path);
  return way === "" || way.startsWith("..") || isAbsolute(way) ? path : way;
}

function givenVariable(io: Io, name: string): string | undefined {
  const value = io.env[name];
  if (value === undefined || value === "") return undefined;
  try {
    return secretText(value);
  } catch {
    throw new CommandFailed(
      `the environment variable ${name} does not fit into an env file: it must be one line of text`,
    );
  }
}

function commandText(words: string, settings: string, io: Io): string {
  const { npm_lifecycle_event: script, npm_command: npm } = io.env;
  const program =
    script === "relay" ? "npm run -s relay --" : npm === "exec" ? "npx wamid-relay" : "wamid-relay";
  const path = fromHere(settings);
  return `${program} ${words}${path === "relay.yaml" ? "" : ` --config ${shellWord(path)}`}`;
}
