import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import type { Happening } from "../sandbox/start-sandbox.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { type FailOption, fail, port, share, speed, usualWebhook, webhook } from "./sandbox/option-values.ts";

interface Options {
  readonly port: number;
  readonly host: string;
  readonly plan?: string;
  readonly speed: number;
  readonly seed?: string;
  readonly state?: string;
  readonly unlimited?: boolean;
  /** False with `--no-webhook`. */
  readonly webhook?: readonly string[] | false;
  readonly key?: string;
  readonly secret?: string;
  readonly service: string;
  readonly duplicate?: number;
  readonly reorder?: number;
  readonly delay?: number;
  readonly drop?: number;
  readonly truncate?: number;
  readonly wrongSignature?: number;
  readonly fail?: readonly FailOption[];
  readonly relayConfig?: string;
  readonly quiet?: boolean;
  readonly json?: boolean;
}

/** Adds `sandbox`: the messaging service, played on this machine until told to stop. */
export function addSandboxCommand(program: Command, io: Io): void {
  program
    .command("sandbox")
    .description("Play the messaging service on this machine, so that no account is needed")
    .option("--port <port>", "listen on this port (0: any free one)", port, 4010)
    .option("--host <address>", "listen on this address; /sandbox has no key", "127.0.0.1")
    .option("--plan <plan>", "the account's plan: trial, growth, escala or enterprise (default: escala, or as in the state file)")
    .option("--speed <factor>", "messages, retries and automations go so many times as fast", speed, 1)
    .option("--seed <text>", "the same seed makes the same lives of messages (default: others each time)")
    .option("--state <file>", "remember everything in this SQLite file (default: memory only)")
    .option("--unlimited", "no caps per minute and no monthly quotas")
    .option("--webhook <url>", `post events to this URL; may be repeated (default: the relay at ${usualWebhook})`, webhook)
    .option("--no-webhook", "set up no URL for events; those that the state file remembers stay")
    .option("--key <text>", "the API key (default: the environment variable SANDBOX_KEY, or made up)")
    .option("--secret <text>", "the secret that signs events (default: the environment variable SANDBOX_SECRET, or made up)")
    .option("--service <name>", "the service's short name: events are signed in x-<name>-signature", "acme")
    .option("--duplicate <share>", "post this share of events twice", share)
    .option("--reorder <share>", "let later events overtake this share", share)
    .option("--delay <share>", "post this share of events 5 s late", share)
    .option("--drop <share>", "never post this share of events", share)
    .option("--truncate <share>", "post this share of events with their data truncated", share)
    .option("--wrong-signature <share>", "post this share of events with a wrong signature first", share)
    .option("--fail <answer:share>", "answer API calls with 500, 502, 429, hang, reset or malformed; may be repeated", fail)
    .option("--relay-config <file>", "write the settings of a relay for it to this file")
    .option("--quiet", "do not print what happens")
    .option("--json", "print JSON lines: what is set up, then what happens")
    .addHelpText(
      "after",
      `
Prints the base URL, a key, a secret, a first message to send and a relay.yaml, then a line for each thing that
happens. /sandbox plays what is around the service: customers, settings, clock, faults (docs/sandbox.md).

Examples:
  wamid-relay sandbox
  wamid-relay sandbox --state data/sandbox.db --relay-config sandbox.yaml
  wamid-relay sandbox --speed 20 --duplicate 0.1 --reorder 0.1 --fail 502:0.05
  curl -d '{"text": "hola"}' http://127.0.0.1:4010/sandbox/customers/+5491155551234/messages`,
    )
    .action((options: Options) => sandbox(options, io));
}

async function sandbox(options: Options, io: Io): Promise<void> {
  const { json = false, quiet = false, service, relayConfig } = options;
  const [{ startSandbox, SandboxRefused }, { happeningLine, readyLines, readyOf }, { firstLine, relayYaml }] = await Promise.all([
    import("../sandbox/start-sandbox.ts"),
    import("./sandbox/lines.ts"),
    import("./sandbox/relay-yaml.ts"),
  ]);
  if (relayConfig !== undefined) mustBeOurs(relayConfig, firstLine);
  if (!isLoopback(options.host)) {
    io.err(`warning: --host ${options.host} lets others in: /sandbox has no key, and whoever reaches it may do anything with the sandbox`);
  }
  const print = (happening: Happening): void => {
    if (json && !quiet) io.out(JSON.stringify({ at: new Date().toISOString(), ...happening }));
    else if (happening.what === "failed") io.err(happeningLine(happening, new Date()));
    else if (!quiet) io.out(happeningLine(happening, new Date()));
  };
  // What a state file has under way goes on at once; it is told after what is set up.
  let early: Happening[] | null = [];
  const running = await startSandbox({
    ...settingsOf(options, io),
    onHappening: (happening) => (early === null ? print(happening) : void early.push(happening)),
  }).catch((error: unknown) => {
    throw error instanceof SandboxRefused ? new CommandFailed(error.message) : optionFault(error);
  });
  await using _ = running;
  const stopped = stopSignal();
  const ready = readyOf(running, service);
  if (relayConfig !== undefined) writePrivately(relayConfig, `${relayYaml(ready)}\n`);
  if (json) io.out(JSON.stringify({ at: new Date().toISOString(), what: "ready", ...ready }));
  else for (const line of readyLines(ready)) io.out(line);
  early.forEach(print);
  early = null;
  await stopped;
}

/** Only whoever started it may read it: it has the key and the secret. */
function writePrivately(path: string, text: string): void {
  try {
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    throw new CommandFailed(`cannot write --relay-config: ${(error as Error).message}`);
  }
}

function settingsOf(options: Options, io: Io) {
  const { plan, seed, state, unlimited = false, webhook: webhooks, host, service } = options;
  const key = options.key ?? io.env["SANDBOX_KEY"];
  const secret = options.secret ?? io.env["SANDBOX_SECRET"];
  const { duplicate, reorder, delay, drop, truncate, wrongSignature } = options;
  return {
    host,
    service,
    port: options.port,
    speed: options.speed,
    isUnlimited: unlimited,
    webhooks: webhooks === false ? [] : (webhooks ?? usualWebhooks(plan)).map((url) => ({ url })),
    faults: {
      events: defined({ duplicate, reorder, delay, drop, truncate, wrongSignature }),
      api: [...(options.fail ?? [])],
    },
    ...defined({ plan: plan as "escala" | undefined, seed, file: state, key, secret }),
  };
}

/** A plan without the API has no webhooks. */
function usualWebhooks(plan: string | undefined): readonly string[] {
  return plan === "trial" || plan === "growth" ? [] : [usualWebhook];
}

/** Keys whose value was not given left out. */
function defined<T extends object>(given: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host);
}

/** Somebody's own settings are not written over. */
function mustBeOurs(path: string, firstLine: string): void {
  if (existsSync(path) && !readFileSync(path, "utf8").startsWith(firstLine)) {
    throw new CommandFailed(`${path} is there already and was not made by the sandbox; give --relay-config another name`);
  }
}

/** A value that the sandbox's options do not take, in one line. */
function optionFault(error: unknown): unknown {
  const { name, issues } = error as { name?: string; issues?: { path: PropertyKey[]; message: string }[] };
  if (name !== "ZodError" || issues === undefined) return error;
  return new CommandFailed(issues.map(({ path, message }) => `--${path.map(String).join(".")}: ${message}`).join("; "));
}
