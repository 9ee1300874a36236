import { type Command, InvalidArgumentError } from "commander";
import type { Io } from "./io.ts";

export interface SandboxOptions {
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

/** Adds `sandbox`: simulates the messaging service on this machine until a signal stops it. */
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
    .action(async (options: SandboxOptions) => {
      const { runSandbox } = await import("./sandbox-run.ts");
      await runSandbox(options, io);
    });
}

/** Default webhook URL of a relay on this machine. */
export const usualWebhook = "http://127.0.0.1:8080/webhooks/main";

/** Faults that replace the answer to an API call. */
const answers = ["500", "502", "429", "hang", "reset", "malformed"] as const;

interface FailOption {
  readonly answer: 500 | 502 | 429 | "hang" | "reset" | "malformed";
  readonly share: number;
}

/** A share of all, from 0 to 1. */
function share(text: string): number {
  const number = Number(text);
  if (text.trim() === "" || !(number >= 0 && number <= 1)) throw new InvalidArgumentError("It must be a share from 0 to 1, such as 0.1.");
  return number;
}

function port(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new InvalidArgumentError("It must be a port from 0 to 65535 (0: any free one).");
  return Number(text);
}

function speed(text: string): number {
  const number = Number(text);
  if (!(number > 0 && number <= 1e6)) throw new InvalidArgumentError("It must be a number above 0, such as 10.");
  return number;
}

/** `500`, `hang:0.1`; may be repeated. */
function fail(text: string, before: readonly FailOption[] = []): FailOption[] {
  const [answer = "", part = "1", ...rest] = text.split(":");
  if (!answers.some((known) => known === answer) || rest.length > 0) {
    throw new InvalidArgumentError(`It must be one of ${answers.join(", ")}, and a share after a colon, such as 500:0.1.`);
  }
  return [...before, { answer: (/^\d/.test(answer) ? Number(answer) : answer) as FailOption["answer"], share: share(part) }];
}

/** An http or https URL; may be repeated. */
function webhook(text: string, before: readonly string[] | boolean = []): string[] {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidArgumentError("It must be an http or https URL.");
  return [...(Array.isArray(before) ? (before as string[]) : []), text];
}
