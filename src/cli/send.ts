import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import type { ControlAnswer, ControlClient } from "./control-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { pairs, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import type { OptionsOf } from "./typed.ts";

/** Adds `send`: one message, once per key. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) => sendMessage(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .requiredOption("--to <phone>", "phone with country code, such as +5491155550100")
    .option("--text <text>", "free text; only within 24 hours of the customer's last message")
    .option("--template <id>", "an approved template, instead of text")
    .option("--var <name=value>", "a variable of the template; may be repeated", pairs("name=value"), {})
    .option("--account <name>", "the account that sends; required if there are several")
    .option("--from <id>", "network id of the sending number, when several are connected")
    .option("--key <text>", "idempotency key (default: a new one, which is printed)")
    .option("--reference <text>", "your own reference, such as an order number")
    .option("--metadata <key=value>", "your own data, for routes and payload: enriched; may be repeated", pairs("name=value"), {})
    .option("--resend-unknown", "send again although the outcome of an earlier call under this key is unknown")
    .option("--show-pii", "show the wamid, which contains the phone")
    .option("--json", "print the relay's answer as JSON")
    .addHelpText(
      "after",
      `
Sends through the running relay, so that both share the caps. If no relay runs, the command calls the service itself, and
the events of the message wait for the next start.

Exit codes:
  0  sent, now or earlier under this key
  1  rejected, or the outcome is unknown: standard error has what to check

Examples:
  wamid-relay send --to +5491155550100 --text "Tu pedido salió." --key order-1234-left --reference order-1234
  wamid-relay send --to +5491155550100 --template 0199… --var nombre=Ana --var fecha=lunes`,
    );
}

/** Sends one message and prints the result. */
async function sendMessage(command: Command, options: Options, io: Io): Promise<void> {
  const { account, to, text, template, var: variables, from, reference, metadata } = options;
  if ((text === undefined) === (template === undefined)) command.error("error: give exactly one of --text and --template");
  if (template === undefined && Object.keys(variables).length > 0) command.error("error: --var is for a --template");
  if (options.resendUnknown === true && options.key === undefined)
    command.error("error: --resend-unknown needs the --key that it is about");
  const key = options.key ?? randomUUID();
  const body = {
    account,
    to,
    text,
    ...(template === undefined ? {} : { template: { id: template, variables } }),
    phoneNumberId: from,
    reference,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };

  const [{ parseAnswer }, { expectDone, readAnswer, withRelay }] = await Promise.all([import("./answers.ts"), import("./reach-relay.ts")]);
  /** `--resend-unknown` is about a call before this command: an outcome that this very call leaves unknown is not sent again. */
  async function send(client: ControlClient): Promise<ControlAnswer> {
    const headers = { "idempotency-key": key };
    const answer = await client.request("POST", "/v1/messages", body, headers);
    const unknown = parseAnswer("unknownOutcome", answer.json);
    if (options.resendUnknown !== true || !("data" in unknown) || unknown.data.details.justNow) return answer;
    return client.request("POST", `/v1/messages?resend=${unknown.data.details.resend}`, body, headers);
  }
  const answer = await withRelay(command, options, io, "send", send, "service").catch((error: unknown) => {
    // With the key, the same command does not send twice.
    if (error instanceof CommandFailed && options.key === undefined) throw new CommandFailed(`${error.message} (the key was ${key})`);
    throw error;
  });
  if ("data" in parseAnswer("unknownOutcome", answer.json)) {
    const { error } = answer.json as { error?: unknown };
    throw new CommandFailed(`${String(error)}; to send it again: the same command with --key ${key} --resend-unknown`);
  }
  const sent = readAnswer("sent", expectDone(answer));
  print(io, options, sent, () => [
    `${answer.isReplayed ? "already sent" : "sent"}  ${sent.wamid}  id ${sent.id ?? "unknown"}  key ${sent.idempotencyKey}`,
  ]);
  if (!sent.stored) io.err("wamid-relay: it was sent, but the relay cannot store it now; keep its id, and do not send it again");
}
