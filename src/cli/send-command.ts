import { type Command, InvalidArgumentError } from "commander";
import type { Io } from "./io.ts";
import { type RelayOptions, withRelayOptions } from "./options.ts";

export interface SendOptions extends RelayOptions {
  readonly account?: string;
  readonly to: string;
  readonly text?: string;
  readonly template?: string;
  readonly var: Readonly<Record<string, string>>;
  readonly from?: string;
  readonly key?: string;
  readonly reference?: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly resendUnknown?: boolean;
  readonly showPii?: boolean;
  readonly json?: boolean;
}

/** Adds `send`: one message, once per key. */
export function addSendCommand(program: Command, io: Io): void {
  const send = withRelayOptions(program.command("send"));
  send
    .description("send one message through the messaging service and register it; the same key never sends twice by itself")
    .requiredOption("--to <phone>", "phone with country code, such as +5491155550100")
    .option("--text <text>", "free text; only within 24 hours of the customer's last message")
    .option("--template <id>", "an approved template instead of text")
    .option("--var <name=value>", "a variable of the template; may be repeated", pair, {})
    .option("--account <name>", "the account that sends; needed when there are several")
    .option("--from <id>", "network id of the sending number, when several are connected")
    .option("--key <text>", "idempotency key; without it one is made and shown")
    .option("--reference <text>", "your own name for the message, such as an order number")
    .option("--metadata <key=value>", "handed on with payload: enriched, matched by routes; may be repeated", pair, {})
    .option("--resend-unknown", "send again although nobody knows whether an earlier call under this key sent it")
    .option("--show-pii", "show the wamid, which contains the phone")
    .option("--json", "print the relay's answer as JSON, the wamid in clear")
    .addHelpText(
      "after",
      `
Goes through the relay of the settings when it runs, so that the caps are kept together; else this command
calls the service itself, and the message's events wait for the relay's next start.

Examples:
  wamid-relay send --to +5491155550100 --text "Tu pedido salió." --key order-1234-left --reference order-1234
  wamid-relay send --to +5491155550100 --template 0199… --var nombre=Ana --var fecha=lunes`,
    )
    .action(async (options: SendOptions) => {
      const { sendMessage } = await import("./send/send-message.ts");
      await sendMessage(send, options, io);
    });
}

function pair(text: string, earlier: Readonly<Record<string, string>>): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be name=value.");
  return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
}
