import { randomBytes } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type Command, InvalidArgumentError } from "commander";
import { readPostgresUrl } from "../model/postgres.ts";
import { CommandFailed, type Io } from "./io.ts";
import { choice, givenArgument, httpUrl } from "./options.ts";
import { print } from "./output.ts";
import { type OptionsOf, typed } from "./typed.ts";

const drivers = ["sqlite", "postgres"] as const;

/** Adds `init`: writes the settings of a new relay and its secrets. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) =>
    runInit(command, options, io, { input: process.stdin, output: process.stderr, isTerminal: process.stdin.isTTY }),
  );
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return typed(command)
    .option("--service-name <name>", "the service's short name: its events carry the header x-<name>-signature", serviceName)
    .option("--downstream <url>", "where the relay delivers events", httpUrl)
    .addOption(choice("--storage <driver>", "sqlite: one file and one process; postgres: any number of processes", drivers))
    .option("--postgres-url <url>", "with --storage postgres: its address", postgresUrl)
    .option("--port <port>", "listen on this port", port, 8080)
    .option("--base-url <url>", "the service's base URL, to send messages and poll statuses", httpUrl)
    .option("--webhook-secret <text>", "the service's webhook secret (default: the environment variable WEBHOOK_SECRET)", secretText)
    .option("--api-key <text>", "the service's API key (default: the environment variable MESSAGING_API_KEY)", secretText)
    .option("--dir <folder>", "write the files to this folder", givenArgument, ".")
    .option("-y, --yes", "ask nothing, use the defaults")
    .option("--json", "print {settings, envFile, schema, placeholders, next} as JSON")
    .addHelpText(
      "after",
      `
Writes relay.yaml and .env (mode 0600). On a terminal it asks for what the options leave out. Secrets belong
into environment variables: other users of the machine can see options.

Variables in .env:
  RELAY_TOKEN                         a random token, 64 hex digits
  DOWNSTREAM_SECRET                   a random secret for Standard Webhooks: whsec_ and base64
  WEBHOOK_SECRET, MESSAGING_API_KEY   yours, or a placeholder that config check, serve and doctor warn about
  POSTGRES_URL                        with --storage postgres

Examples:
  wamid-relay init
  wamid-relay init --service-name acme --downstream https://app.example/webhooks --dir /etc/wamid-relay
  WEBHOOK_SECRET=… wamid-relay init --yes`,
    );
}

function serviceName(text: string): string {
  if (!/^[A-Za-z0-9-]+$/.test(text)) throw new InvalidArgumentError("It must have letters, digits and hyphens only.");
  return text.toLowerCase();
}

function postgresUrl(text: string): string {
  if (readPostgresUrl(text) === null)
    throw new InvalidArgumentError("It must be a URL such as postgres://user:password@host:5432/database.");
  return secretText(text);
}

function driver(text: string): (typeof drivers)[number] {
  const found = drivers.find((each) => each === text.toLowerCase());
  if (found === undefined) throw new InvalidArgumentError(`It must be ${drivers.join(" or ")}.`);
  return found;
}

function port(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535 || Number(text) < 1)
    throw new InvalidArgumentError("It must be a port from 1 to 65535.");
  return Number(text);
}

/** A secret that fits into one line of the env file. */
function secretText(text: string): string {
  if (text === "" || /[\p{Cc}]/u.test(text)) throw new InvalidArgumentError("It must be one line of text.");
  if (["'", '"', "`"].every((quote) => text.includes(quote)))
    throw new InvalidArgumentError("It must not contain all three kinds of quotes.");
  return text;
}

/** Where the questions go. */
export interface Terminal {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  /** True when a person can answer. */
  readonly isTerminal: boolean | undefined;
}

/** What a relay needs to know, complete. */
interface Answers {
  readonly serviceName: string;
  readonly downstream: string;
  readonly storage: (typeof drivers)[number];
  readonly postgresUrl: string;
}

const defaults: Answers = {
  serviceName: "acme",
  downstream: "http://127.0.0.1:3000/webhooks",
  storage: "sqlite",
  postgresUrl: "postgres://relay@127.0.0.1:5432/relay",
};

/** Asks, writes and checks. `terminal` is where the questions go. */
export async function runInit(command: Command, options: Options, io: Io, terminal: Terminal): Promise<void> {
  const folder = resolve(options.dir);
  const settings = join(folder, "relay.yaml");
  const envFile = join(folder, ".env");
  refuseExisting([settings, envFile]);
  const answers = await answersOf(command, options, terminal);
  const webhookSecret = options.webhookSecret ?? givenVariable(io, "WEBHOOK_SECRET");
  const apiKey = options.apiKey ?? givenVariable(io, "MESSAGING_API_KEY");
  const schema = await schemaOf(folder);
  const [{ isPrivateHost }, { placeholderPrefix }] = await Promise.all([
    import("../config/private-address.ts"),
    import("../model/secret.ts"),
  ]);
  // Random, so that a relay that runs with the placeholder accepts no event that anybody else signed.
  const placeholder = () => `${placeholderPrefix}${randomBytes(16).toString("hex")}`;
  const { port, baseUrl } = options;
  const isCallable = baseUrl !== undefined || apiKey !== undefined;
  const variables: Variable[] = [
    ["WEBHOOK_SECRET", webhookSecret ?? placeholder(), "Secret of the webhook at the messaging service, which signs its events."],
    ...(isCallable ? [["MESSAGING_API_KEY", apiKey ?? placeholder(), "API key of the account at the messaging service."] as const] : []),
    ["RELAY_TOKEN", randomBytes(32).toString("hex"), "Bearer token of the control API. The wamid-relay commands use it too."],
    [
      "DOWNSTREAM_SECRET",
      `whsec_${randomBytes(32).toString("base64")}`,
      "Signs deliveries (Standard Webhooks). Give it to the downstream.",
    ],
    ...(answers.storage === "postgres"
      ? [["POSTGRES_URL", answers.postgresUrl, "Address of the PostgreSQL database, with user and password."] as const]
      : []),
  ];
  const text = settingsText({
    ...answers,
    port,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    isCallable,
    schema: schema.reference,
    database: join(folder, "data", "relay.db"),
    isPrivate: isPrivateHost(answers.downstream),
  });
  const files: NewFile[] = [
    { path: envFile, text: envText(variables), mode: 0o600 },
    ...(schema.text === null ? [] : [{ path: join(folder, "relay.schema.json"), text: schema.text, mode: 0o644, isOurs: true }]),
    { path: settings, text, mode: 0o644 },
  ];
  await writeFiles(folder, files, { settings, envFile, io });

  const placeholders = [
    ...(webhookSecret === undefined ? ["WEBHOOK_SECRET"] : []),
    ...(isCallable && apiKey === undefined ? ["MESSAGING_API_KEY"] : []),
  ];
  const next = ["config check", "serve", "trigger message.status"].map((words) => commandText(words, settings, io));
  if (options.json === true) {
    print(
      io,
      options,
      { settings, envFile, schema: schema.text === null ? null : join(folder, "relay.schema.json"), placeholders, next },
      () => [],
    );
    return;
  }
  io.out(`Wrote ${fromHere(settings)}`);
  io.out(`Wrote ${fromHere(envFile)} with new secrets. Keep it out of version control.`);
  if (schema.text !== null) io.out(`Wrote ${fromHere(join(folder, "relay.schema.json"))} for editors.`);
  io.out("");
  if (placeholders.length > 0) {
    io.out(`Put the real secrets into ${fromHere(envFile)} in place of: ${placeholders.join(", ")}.`);
    io.out("");
  }
  io.out("Next:");
  const notes = ["check the settings", "start the relay", "in a second terminal: post a signed sample event"];
  const width = Math.max(...next.map((each) => each.length));
  for (const [index, each] of next.entries()) io.out(`  ${each.padEnd(width)}   # ${notes[index]}`);
}

function givenVariable(io: Io, name: string): string | undefined {
  const value = io.env[name];
  if (value === undefined || value === "") return undefined;
  try {
    return secretText(value);
  } catch {
    throw new CommandFailed(`the environment variable ${name} does not fit into an env file: it must be one line of text`);
  }
}

function refuseExisting(paths: readonly string[]): void {
  const existing = paths.filter((path) => existsSync(path));
  if (existing.length > 0) throw alreadyThere(existing);
}

function alreadyThere(paths: readonly string[]): CommandFailed {
  const [verb, them] = paths.length === 1 ? ["exists", "it"] : ["exist", "them"];
  return new CommandFailed(`${paths.map(fromHere).join(" and ")} already ${verb}; move ${them} away, or give --dir another folder`);
}

/** Asks for what the options leave out. Without a terminal, what has no option is wrong usage. */
async function answersOf(command: Command, options: Options, terminal: Terminal): Promise<Answers> {
  if (options.postgresUrl !== undefined && options.storage === "sqlite") command.error("error: --postgres-url is for --storage postgres");
  const storage = options.storage ?? (options.postgresUrl === undefined ? undefined : "postgres");
  const isAsking = options.yes !== true && terminal.isTerminal === true;
  if (!isAsking && options.yes !== true) {
    const missing = [
      ...(options.serviceName === undefined ? ["--service-name"] : []),
      ...(options.downstream === undefined ? ["--downstream"] : []),
    ];
    if (missing.length > 0) {
      command.error(
        `error: standard input is no terminal, so nothing can be asked; give ${missing.join(" and ")}, or --yes for the defaults`,
      );
    }
  }
  const ask = isAsking ? createQuestions(terminal) : null;
  const answer = async <T extends string>(given: T | undefined, question: string, fallback: T, read: (text: string) => T): Promise<T> =>
    given ?? (ask === null ? fallback : ask.next(question, fallback, read));
  try {
    const name = await answer(
      options.serviceName,
      "Short name of the messaging service (header x-<name>-signature)",
      defaults.serviceName,
      serviceName,
    );
    const downstream = await answer(options.downstream, "Downstream URL, where events are delivered", defaults.downstream, httpUrl);
    const engine = await answer(storage, "Storage: sqlite (one file) or postgres (several processes)", defaults.storage, driver);
    const address =
      engine === "postgres" ? await answer(options.postgresUrl, "PostgreSQL URL", defaults.postgresUrl, postgresUrl) : defaults.postgresUrl;
    return { serviceName: name, downstream, storage: engine, postgresUrl: address };
  } finally {
    ask?.close();
  }
}

function createQuestions({ input, output }: Terminal) {
  const lines = createInterface({ input, output });
  // The iterator keeps lines that arrive between two questions, as pasted ones do.
  const answers = lines[Symbol.asyncIterator]();
  let isClosed = false;
  lines.once("close", () => {
    isClosed = true;
  });
  return {
    /** Repeats the question until the answer is valid. An empty answer is the fallback. */
    async next<T extends string>(question: string, fallback: T, read: (text: string) => T): Promise<T> {
      for (;;) {
        lines.setPrompt(`${question} [${fallback}]: `);
        if (!isClosed) lines.prompt();
        const { value, done } = await answers.next();
        if (done === true) throw new CommandFailed("the input ended before all questions were answered; nothing was written");
        const text = value.trim();
        if (text === "") return fallback;
        try {
          return read(text);
        } catch (error) {
          if (!(error instanceof InvalidArgumentError)) throw error;
          output.write(`${error.message}\n`);
        }
      }
    },
    close: () => lines.close(),
  };
}

/** Root of this package: `src/cli` in a checkout and `dist/cli` in a package are both two levels below it. */
const packageRoot = fileURLToPath(new URL("../..", import.meta.url)).replace(/[/\\]$/, "");

/** The project into whose `node_modules` this package is installed; null for a checkout and a global installation. */
function projectOf(folder: string, root = packageRoot): string | null {
  const modules = dirname(root);
  if (basename(modules) !== "node_modules") return null;
  const project = dirname(modules);
  return folder === project || folder.startsWith(`${project}${sep}`) ? project : null;
}

/**
 * The editor schema: that of the package in the project's `node_modules`, which stays in step with it. Elsewhere a copy is
 * written beside the settings, because a path into a global installation holds on one machine only.
 */
export async function schemaOf(folder: string, root = packageRoot): Promise<{ readonly reference: string; readonly text: string | null }> {
  const installed = join(root, "config", "relay.schema.json");
  if (projectOf(folder, root) !== null && existsSync(installed)) {
    const path = relative(folder, installed).split(sep).join("/");
    return { reference: path.startsWith(".") ? path : `./${path}`, text: null };
  }
  const { editorSchema } = await import("../config/json-schema.ts");
  return { reference: "./relay.schema.json", text: `${JSON.stringify(editorSchema(), null, 2)}\n` };
}

interface NewFile {
  readonly path: string;
  readonly text: string;
  readonly mode: number;
  /** True for a file that may be replaced without asking. */
  readonly isOurs?: boolean;
}

/** Writes all files, or none when the settings would not load. */
async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { settings, envFile, io }: { settings: string; envFile: string; io: Io },
): Promise<void> {
  const begun: string[] = [];
  try {
    mkdirSync(folder, { recursive: true });
    for (const { path, text, mode, isOurs = false } of files) {
      // Fails where the name is taken, also by what came during the questions.
      if (!isOurs) closeSync(openSync(path, "wx", mode));
      begun.push(path);
      writeFileSync(path, text, { mode });
    }
    const { readSettings } = await import("./settings-option.ts");
    readSettings({ config: settings, envFile }, io);
  } catch (error) {
    for (const path of begun) rmSync(path, { force: true });
    if (error instanceof CommandFailed) throw error;
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && path !== undefined) throw alreadyThere([path]);
    throw new CommandFailed(`cannot write to ${fromHere(folder)}: ${(error as Error).message}`);
  }
}

/** Name, value and comment. */
type Variable = readonly [string, string, string];

function envText(variables: readonly Variable[]): string {
  const head = '# Secrets of relay.yaml, written by "wamid-relay init". Keep this file private and out of version control.\n';
  return head + variables.map(([name, value, comment]) => `\n# ${comment}\n${name}=${quoted(value)}\n`).join("");
}

/** Plain where possible: systemd and docker read quotes in their own ways. */
function quoted(value: string): string {
  if (/^[\w+/=.:@%?&~,-]+$/.test(value)) return value;
  const quote = ["'", '"', "`"].find((each) => !value.includes(each)) ?? "'";
  return `${quote}${value}${quote}`;
}

interface SettingsParts extends Answers {
  readonly port: number;
  readonly baseUrl?: string;
  /** A base URL or an API key was given. */
  readonly isCallable: boolean;
  readonly schema: string;
  readonly database: string;
  /** The downstream has a private or loopback address. */
  readonly isPrivate: boolean;
}

function settingsText(parts: SettingsParts): string {
  const { serviceName: service, downstream, storage, port, baseUrl, isCallable, schema, database, isPrivate } = parts;
  return `# yaml-language-server: $schema=${schema}
#
# Settings of wamid-relay, written by "wamid-relay init". Defaults apply to settings that are not here.
#
#   wamid-relay config check    lists every fault with its line
#   wamid-relay config print    prints the settings in effect, secrets as fingerprints
#
# \${NAME} comes from the environment, or from the file .env beside this one.

server:
  # In a container: 0.0.0.0
  host: \${RELAY_HOST:-127.0.0.1}
  port: \${PORT:-${port}}
  # Proxies whose X-Forwarded-For header counts:
  # trustProxy: [loopback]

${storage === "sqlite" ? sqliteText(database) : postgresText}
# Bearer tokens of the control API under /v1. The commands use them too.
control:
  tokens:
    - name: ops
      token: \${RELAY_TOKEN}
      scopes: [read, track, send, replay, listen, pii]

# Accounts at the messaging service.
accounts:
  main:
    # The relay calls the service only with both baseUrl and apiKey: to send messages and to poll statuses.
    ${baseUrl === undefined ? "# baseUrl: https://messaging.example" : `baseUrl: ${yamlText(baseUrl)}`}
    ${isCallable ? "" : "# "}apiKey: \${MESSAGING_API_KEY}
    plan: escala

# Each source is an endpoint. The service posts to this one at /webhooks/main.
sources:
  main:
    signature:
      # The header is x-${service}-signature. "wamid-relay verify" finds the settings for a captured request.
      service: ${yamlText(service)}
      # To rotate, add the new secret first. Remove the old one when "wamid-relay doctor" says so.
      secrets:
        - \${WEBHOOK_SECRET}

# An event goes to every route that matches.
routes:
  - name: downstream
    match:
      events: ["*"]
    to:
      url: ${yamlText(downstream)}
${isPrivate ? "      # The address is not public.\n      allowPrivate: true\n" : ""}      # The downstream verifies the webhook-signature header with this secret (Standard Webhooks).
      secret: \${DOWNSTREAM_SECRET}
`;
}

/** Absolute, because a relative path starts at the working directory: cron or another folder would make an empty second store. */
const sqliteText = (database: string) => `storage:
  driver: sqlite
  # Everything is in this file. The path is absolute, so a copy of these settings uses the same store.
  # For a test restore, name another one first: export RELAY_DATA=/tmp/restored.db
  path: ${/[$}]/.test(database) ? yamlText(database) : JSON.stringify(`\${RELAY_DATA:-${database}}`)}
`;

const postgresText = `storage:
  driver: postgres
  # PostgreSQL 14 or newer. The database must exist; the relay creates its tables. "wamid-relay doctor" checks the server.
  url: \${POSTGRES_URL}
`;

/** Double quotes as in JSON, and no variable. */
function yamlText(text: string): string {
  return JSON.stringify(text.replaceAll("${", () => "$${"));
}

function commandText(words: string, settings: string, io: Io): string {
  const { npm_lifecycle_event: script, npm_command: npm } = io.env;
  const isLocal = projectOf(dirname(settings)) !== null || npm === "exec";
  const program = script === "relay" ? "npm run -s relay --" : isLocal ? "npx wamid-relay" : "wamid-relay";
  const path = fromHere(settings);
  if (path === "relay.yaml") return `${program} ${words}`;
  return `${program} ${words} --config ${/^[\w./\\:@+-]+$/.test(path) ? path : JSON.stringify(path)}`;
}

/** Relative to the working directory where it is below it. */
function fromHere(path: string): string {
  const way = relative(process.cwd(), path);
  return way === "" || way.startsWith("..") || isAbsolute(way) ? path : way;
}
