import { randomBytes } from "node:crypto";
import { dirname, join, resolve } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { readPostgresUrl } from "../model/postgres.ts";
import { envText, fromHere, type NewFile, projectOf, refuseExisting, schemaOf, type Variable, writeFiles } from "./init/files.ts";
import { createQuestions, type Terminal } from "./init/questions.ts";
import { type SettingsParts, settingsText } from "./init/settings-text.ts";
import { CommandFailed, type Io } from "./io.ts";
import { choice, givenArgument, httpUrl } from "./options.ts";
import { print } from "./output.ts";
import { type OptionsOf, typed } from "./typed.ts";

const drivers = ["sqlite", "postgres"] as const;
const providers = ["standard", "meta"] as const;

/** Adds `init`: writes the settings of a new relay and its secrets. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) =>
    runInit(command, options, io, { input: process.stdin, output: process.stderr, isTerminal: process.stdin.isTTY }),
  );
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return typed(command)
    .addOption(
      choice("--provider <name>", "standard: a service with the relay's envelope; meta: Meta's Cloud API (default: standard)", providers),
    )
    .option("--service-name <name>", "the service's short name: its events carry the header x-<name>-signature", serviceName)
    .option("--downstream <url>", "where the relay delivers events", httpUrl)
    .addOption(choice("--storage <driver>", "sqlite: one file and one process; postgres: any number of processes", drivers))
    .option("--postgres-url <url>", "with --storage postgres: its address", postgresUrl)
    .option("--port <port>", "listen on this port", port, 8080)
    .option("--base-url <url>", "the service's base URL, to send messages and poll statuses", httpUrl)
    .option("--webhook-secret <text>", "the service's webhook secret (default: the environment variable WEBHOOK_SECRET)", secretText)
    .option("--app-secret <text>", "with --provider meta: the app secret (default: the environment variable META_APP_SECRET)", secretText)
    .option("--verify-token <text>", "with --provider meta: the verify token (default: a random one)", secretText)
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

function serviceName(text: string): string {
  if (!/^[A-Za-z0-9-]+$/.test(text)) throw new InvalidArgumentError("It must have letters, digits and hyphens only.");
  return text.toLowerCase();
}

function postgresUrl(text: string): string {
  if (readPostgresUrl(text) === null)
    throw new InvalidArgumentError("It must be a URL such as postgres://user:password@host:5432/database.");
  return secretText(text);
}

/** Reads an answer that is one of some words. */
const oneOf =
  <Word extends string>(words: readonly Word[]) =>
  (text: string): Word => {
    const found = words.find((each) => each === text.toLowerCase());
    if (found === undefined) throw new InvalidArgumentError(`It must be ${words.join(" or ")}.`);
    return found;
  };

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

/** What a relay needs to know, complete. */
interface Answers {
  readonly provider: SettingsParts["provider"];
  readonly serviceName: string;
  readonly downstream: string;
  readonly storage: SettingsParts["storage"];
  readonly postgresUrl: string;
}

const defaults: Answers = {
  provider: "standard",
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
  const isMeta = answers.provider === "meta";
  const [secretName, givenSecret, about] = isMeta
    ? (["META_APP_SECRET", options.appSecret, "App secret of the app at Meta, which signs its webhooks."] as const)
    : (["WEBHOOK_SECRET", options.webhookSecret, "Secret of the webhook at the messaging service, which signs its events."] as const);
  const inboundSecret = givenSecret ?? givenVariable(io, secretName);
  const apiKey = options.apiKey ?? (isMeta ? undefined : givenVariable(io, "MESSAGING_API_KEY"));
  const schema = await schemaOf(folder);
  const [{ isPrivateHost }, { placeholderPrefix }] = await Promise.all([
    import("../config/private-address.ts"),
    import("../model/secret.ts"),
  ]);
  const random = (bytes: number) => randomBytes(bytes).toString("hex");
  // Random, so that a relay that runs with the placeholder accepts no event that anybody else signed.
  const placeholder = () => `${placeholderPrefix}${random(16)}`;
  const { port, baseUrl } = options;
  const isCallable = baseUrl !== undefined || apiKey !== undefined;
  const verifyToken = isMeta ? (options.verifyToken ?? random(16)) : null;
  const variables: Variable[] = [
    [secretName, inboundSecret ?? placeholder(), about],
    ...(verifyToken === null ? [] : [["META_VERIFY_TOKEN", verifyToken, "Verify token for the dashboard of the app at Meta."] as const]),
    ...(isCallable ? [["MESSAGING_API_KEY", apiKey ?? placeholder(), "API key of the account at the messaging service."] as const] : []),
    ["RELAY_TOKEN", random(32), "Bearer token of the control API. The wamid-relay commands use it too."],
    isMeta
      ? ["DOWNSTREAM_SECRET", random(32), "Signs deliveries as Meta does. Give it to the downstream as its app secret."]
      : [
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
    ...(inboundSecret === undefined ? [secretName] : []),
    ...(isCallable && apiKey === undefined ? ["MESSAGING_API_KEY"] : []),
  ];
  const sample = isMeta ? "trigger meta.status" : "trigger message.status";
  const next = ["config check", "serve", sample].map((words) => commandText(words, settings, io));
  if (options.json === true) {
    const copied = schema.text === null ? null : join(folder, "relay.schema.json");
    print(io, options, { settings, envFile, schema: copied, placeholders, verifyToken, next }, () => []);
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
  if (verifyToken !== null) {
    io.out("While the relay runs, enter these in the dashboard of the app at Meta, under WhatsApp, Configuration:");
    io.out("  Callback URL   the public https address of this relay, then /webhooks/wa");
    io.out(`  Verify token   ${verifyToken}`);
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

/** Asks for what the options leave out. Without a terminal, what has no option is wrong usage. */
async function answersOf(command: Command, options: Options, terminal: Terminal): Promise<Answers> {
  if (options.postgresUrl !== undefined && options.storage === "sqlite") command.error("error: --postgres-url is for --storage postgres");
  const { serviceName: given, baseUrl, apiKey, webhookSecret, appSecret, verifyToken } = options;
  const ofServices = { "--service-name": given, "--base-url": baseUrl, "--api-key": apiKey, "--webhook-secret": webhookSecret };
  const ofService = Object.entries(ofServices).find(([, value]) => value !== undefined)?.[0];
  if (options.provider === "meta" && ofService !== undefined) command.error(`error: ${ofService} is for --provider standard`);
  const ofMeta = Object.entries({ "--app-secret": appSecret, "--verify-token": verifyToken }).find(([, value]) => value !== undefined)?.[0];
  if (options.provider !== "meta" && ofMeta !== undefined) command.error(`error: ${ofMeta} is for --provider meta`);
  const storage = options.storage ?? (options.postgresUrl === undefined ? undefined : "postgres");
  const isAsking = options.yes !== true && terminal.isTerminal === true;
  if (!isAsking && options.yes !== true) {
    const missing = [
      ...(given === undefined && options.provider !== "meta" ? ["--service-name"] : []),
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
    const provider = await answer(
      options.provider ?? (ofService === undefined ? undefined : "standard"),
      "Provider: standard (the relay's envelope) or meta (Meta's Cloud API)",
      defaults.provider,
      oneOf(providers),
    );
    const name =
      provider === "meta"
        ? defaults.serviceName
        : await answer(given, "Short name of the messaging service (header x-<name>-signature)", defaults.serviceName, serviceName);
    const downstream = await answer(options.downstream, "Downstream URL, where events are delivered", defaults.downstream, httpUrl);
    const engine = await answer(storage, "Storage: sqlite (one file) or postgres (several processes)", defaults.storage, oneOf(drivers));
    const address =
      engine === "postgres" ? await answer(options.postgresUrl, "PostgreSQL URL", defaults.postgresUrl, postgresUrl) : defaults.postgresUrl;
    return { provider, serviceName: name, downstream, storage: engine, postgresUrl: address };
  } finally {
    ask?.close();
  }
}

function commandText(words: string, settings: string, io: Io): string {
  const { npm_lifecycle_event: script, npm_command: npm } = io.env;
  const isLocal = projectOf(dirname(settings)) !== null || npm === "exec";
  const program = script === "relay" ? "npm run -s relay --" : isLocal ? "npx wamid-relay" : "wamid-relay";
  const path = fromHere(settings);
  if (path === "relay.yaml") return `${program} ${words}`;
  return `${program} ${words} --config ${/^[\w./\\:@+-]+$/.test(path) ? path : JSON.stringify(path)}`;
}
