import { once } from "node:events";
import { type Command, InvalidArgumentError } from "commander";
import type { Happening, SandboxOptions } from "../sandbox/start-sandbox.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { choice, givenFlag, httpUrl, portFrom, refuseOptions, several } from "./options.ts";
import { readyLines, readyOf, usualWebhooks } from "./sandbox/ready.ts";
import { type OptionsOf, typed } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => playService(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return typed(command)
    .option("--port <port>", "listen on this port (0: any free one)", portFrom(0), 4010)
    .addOption(
      choice(
        "--format <format>",
        "whose webhooks to post: the service's, or those of Meta's Cloud API",
        ["standard", "meta"],
        "standard",
      ),
    )
    .option("--host <address>", "listen on this address; /sandbox has no key", "127.0.0.1")
    .addOption(
      choice("--plan <plan>", "the account's plan (default: escala, or as in the state file)", [
        "trial",
        "growth",
        "escala",
        "enterprise",
      ]),
    )
    .option(
      "--speed <factor>",
      "speed of messages, retries and automations, as a factor",
      number,
      1,
    )
    .option("--seed <text>", "the same seed gives the same statuses (default: others each time)")
    .option("--state <file>", "store everything in this SQLite file (default: memory only)")
    .option("--unlimited", "no caps per minute and no monthly quotas")
    .option(
      "--webhook <url>",
      `post events to this URL; may be repeated (default: the relay at ${usualWebhooks.standard})`,
      webhook,
    )
    .option("--no-webhook", "add no URL for events; those of the state file stay")
    .option(
      "--key <text>",
      "the API key (default: the environment variable SANDBOX_KEY, or a new one)",
    )
    .option(
      "--secret <text>",
      "the secret that signs events (default: the environment variable SANDBOX_SECRET, or a new one)",
    )
    .option(
      "--service <name>",
      "the service's short name: events are signed in x-<name>-signature",
      "acme",
    )
    .option(
      "--verify-token <text>",
      "meta: what the handshake shows (default: SANDBOX_VERIFY_TOKEN, or made from the secret)",
    )
    .option(
      "--number <id>",
      "meta: a phone_number_id of the account; may be repeated (default: one, made up)",
      several,
    )
    .option(
      "--batch <updates>",
      "meta: gather so many updates for a request, for 1 s at most",
      number,
    )
    .option("--meta <fault:share>", `meta: ${metaFaults.join(", ")}; may be repeated`, metaFault)
    .option("--duplicate <share>", "post this share of events twice", number)
    .option("--reorder <share>", "let later events overtake this share", number)
    .option("--delay <share>", "post this share of events 5 s late", number)
    .option("--drop <share>", "never post this share of events", number)
    .option("--truncate <share>", "post this share of events with their data truncated", number)
    .option(
      "--wrong-signature <share>",
      "post this share of events with a wrong signature first",
      number,
    )
    .option(
      "--fail <answer:share>",
      "answer API calls with 500, 502, 429, hang, reset or malformed; may be repeated",
      fail,
    )
    .option("--quiet", "do not print what happens")
    .option("--json", "print JSON lines: the setup, then what happens")
    .addHelpText(
      "after",
      `
Prints a base URL, a key, a secret, a first message to send and the init command of a relay, then a line for each thing that happens.
Runs until SIGINT or SIGTERM. /sandbox controls customers, settings, clock and faults
(docs/contributing/sandbox.md).

Examples:
  wamid-relay sandbox
  wamid-relay sandbox --state data/sandbox.db
  wamid-relay sandbox --format meta --batch 100 --meta early:0.1 --meta group:0.1
  wamid-relay sandbox --speed 20 --duplicate 0.1 --reorder 0.1 --fail 502:0.05
  curl -d '{"text": "hola"}' http://127.0.0.1:4010/sandbox/customers/+5491155551234/messages`,
    );
}

/** Shares of what Meta's webhooks do (docs/contributing/sandbox.md). */
const metaFaults = ["skip", "early", "group", "username", "call", "unknown"] as const;

const answers = [500, 502, 429, "hang", "reset", "malformed"] as const;

/** The sandbox checks its range. */
function number(text: string): number {
  if (text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  throw new InvalidArgumentError("It must be a number.");
}

/** `early:0.1`, or without a share the `fallback`. */
function wordAndShare<Word extends string | number>(
  text: string,
  words: readonly Word[],
  fallback: string,
): [Word, number] {
  const [given, part = fallback, ...rest] = text.split(":");
  const word = words.find((each) => String(each) === given);
  if (word === undefined || rest.length > 0)
    throw new InvalidArgumentError(
      `It must be one of ${words.join(", ")}, and a share after a colon, such as ${words[0]}:0.1.`,
    );
  return [word, number(part)];
}

/** `early:0.1`; may be repeated. */
function metaFault(
  text: string,
  before: Readonly<Record<string, number>> = {},
): Record<string, number> {
  const [fault, share] = wordAndShare(text, metaFaults, "");
  return { ...before, [fault]: share };
}

type Fail = { readonly answer: (typeof answers)[number]; readonly share: number };

/** `500`, `hang:0.1`; may be repeated. */
function fail(text: string, before: readonly Fail[] = []): Fail[] {
  const [answer, share] = wordAndShare(text, answers, "1");
  return [...before, { answer, share }];
}

function webhook(text: string, before: readonly string[] | boolean = []): string[] {
  return several(httpUrl(text), typeof before === "boolean" ? [] : before);
}

async function playService(command: Command, options: Options, io: Io): Promise<void> {
  const [
    { SandboxRefused, startSandbox },
    { sandboxOptionsSchema },
    { issueText },
    { isLoopbackHost },
  ] = await Promise.all([
    import("../sandbox/start-sandbox.ts"),
    import("../sandbox/options.ts"),
    import("../model/issue-text.ts"),
    import("../net/addresses.ts"),
  ]);
  const { json = false, quiet = false } = options;
  const idle = givenFlag(command, options, ["meta", "batch", "verifyToken"]);
  if (idle !== undefined && options.format !== "meta")
    command.error(`error: ${idle} needs --format meta`);
  const settings = settingsOf(options, io);
  const { issues = [] } =
    sandboxOptionsSchema.safeParse(settings, { error: (issue) => issueText(issue) }).error ?? {};
  refuseOptions(
    command,
    issues.map(({ path, message }) => ({ path: path.join("."), message })),
  );
  const origin = `http://${options.host.includes(":") ? `[${options.host}]` : options.host}`;
  if (!URL.canParse(origin) || !isLoopbackHost(origin)) {
    io.err(
      `warning: --host ${options.host} lets others in: /sandbox has no key, and whoever reaches it may do anything with the sandbox`,
    );
  }
  const print = (happening: Happening): void => {
    const at = new Date().toISOString();
    const line = `${at.slice(11, 19)} ${textOf(happening)}`;
    if (json && !quiet) io.out(JSON.stringify({ at, ...happening }));
    else if (happening.what === "failed") io.err(line);
    else if (!quiet) io.out(line);
  };
  // Work restored from a state file continues at once; it is printed after the setup.
  let early: Happening[] | null = [];
  const running = await startSandbox({
    ...settings,
    onHappening: (happening) => (early === null ? print(happening) : void early.push(happening)),
  }).catch((error: unknown) => {
    throw error instanceof SandboxRefused ? new CommandFailed(error.message) : error;
  });
  await using _ = running;
  const stopped = stopSignal(io.closed);
  const ready = readyOf(running, options);
  if (json) io.out(JSON.stringify({ at: new Date().toISOString(), what: "ready", ...ready }));
  else for (const line of readyLines(ready, isLoopbackHost)) line.split("\n").forEach(io.out);
  early.forEach(print);
  early = null;
  if (!stopped.aborted) await once(stopped, "abort");
}

function settingsOf(options: Options, io: Io): SandboxOptions {
  const { host, port, service, speed, plan, seed, format, webhook: webhooks } = options;
  const { duplicate, reorder, delay, drop, truncate, wrongSignature } = options;
  // A plan without the API has no webhooks.
  const usual = plan === "trial" || plan === "growth" ? [] : [usualWebhooks[format]];
  return {
    host,
    port,
    service,
    speed,
    plan,
    seed,
    format,
    file: options.state,
    isUnlimited: options.unlimited,
    key: options.key ?? io.env["SANDBOX_KEY"],
    secret: options.secret ?? io.env["SANDBOX_SECRET"],
    verifyToken: options.verifyToken ?? io.env["SANDBOX_VERIFY_TOKEN"],
    webhooks: webhooks === false ? [] : (webhooks ?? usual).map((url) => ({ url })),
    faults: {
      events: { duplicate, reorder, delay, drop, truncate, wrongSignature },
      api: options.fail,
      meta: { ...options.meta, batch: options.batch },
    },
    phoneNumberIds: options.number,
  };
}

/** Phones are in clear: the people are made up. */
function textOf(happening: Happening): string {
  switch (happening.what) {
    case "message": {
      const { phone, origin, status, errorCode, text } = happening.message;
      const code = errorCode === undefined || status !== "failed" ? "" : ` (${errorCode})`;
      const words = status === "pending" || status === "received" ? `  ${shortened(text)}` : "";
      return `message  ${phone} ${origin}: ${status}${code}${words}`;
    }
    case "event": {
      const { event, status: word, url, delivery } = happening;
      const { status, answered, tries, reason } = delivery;
      const outcome = status === "dropped" ? "dropped" : (answered ?? "no answer");
      const again =
        status === "waiting"
          ? `, try ${tries}, again later`
          : status === "failed"
            ? ", given up"
            : "";
      return `event    ${event}${word === null ? "" : ` ${word}`} → ${url} ${outcome}${again}${reason === null ? "" : ` (${reason})`}`;
    }
    case "run":
      return `run      ${happening.run.id} ${happening.run.status}${happening.run.error === null ? "" : `: ${happening.run.error}`}`;
    case "refused":
      return `refused  ${happening.method} ${happening.path} ${happening.status} ${shortened(happening.error)}`;
    case "handshake":
      return `callback ${happening.url} ${happening.isVerified ? "verified" : `not verified: ${happening.reason}; it is tried every second, and gets nothing until then`}`;
    case "failed":
      return `failed   the sandbox itself: ${happening.error instanceof Error ? happening.error.stack : String(happening.error)}`;
  }
}

function shortened(text: string): string {
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}
