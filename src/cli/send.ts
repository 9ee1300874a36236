import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import { RelayClientError } from "../client/connection.ts";
import type { ControlClient } from "./control-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { matching, pairs, withRelayOptions } from "./options.ts";
import { print, shellWord } from "./output.ts";
import { withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .requiredOption("--to <phone>", "phone with country code, such as +5491155550100")
    .option("--text <text>", "free text; only within 24 hours of the customer's last message")
    .option("--template <id>", "an approved template, instead of text")
    .option("--var <key=value>", "a variable of the template; may be repeated", pairs)
    .option("--account <name>", "the account that sends; required if there are several")
    .option("--from <id>", "network id of the sending number, when several are connected")
    .option("--key <text>", "idempotency key (default: a new one, which is printed)", keyText)
    .option("--reference <text>", "your own reference, such as an order number")
    .option(
      "--metadata <key=value>",
      "your own data, for routes and payload: enriched; may be repeated",
      pairs,
    )
    .option(
      "--resend-unknown",
      "send again although the outcome of an earlier call under this key is unknown",
    )
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
    )
    .action(async (options) => {
      const {
        account,
        to,
        text,
        template,
        var: variables = {},
        from,
        reference,
        metadata,
      } = options;
      if ((text === undefined) === (template === undefined))
        command.error("error: give exactly one of --text and --template");
      if (template === undefined && options.var !== undefined)
        command.error("error: --var is for a --template");
      if (options.resendUnknown === true && options.key === undefined)
        command.error("error: --resend-unknown needs the --key that it is about");
      const idempotencyKey = options.key ?? randomUUID();
      const order = {
        account,
        to,
        ...(template === undefined
          ? { text: text as string }
          : { template: { id: template, variables } }),
        phoneNumberId: from,
        reference,
        metadata,
      };
      const { failureOf } = await import("./control-client.ts");
      const isUnknown = (error: unknown): error is RelayClientError =>
        error instanceof RelayClientError && error.code === "outcome_unknown";
      const send = (client: ControlClient) =>
        client
          .send(order, { idempotencyKey })
          .catch((error: unknown) => {
            const { resend, justNow } = (isUnknown(error) ? error.details : {}) as {
              resend?: number;
              justNow?: boolean;
            };
            // The option is about a call before this command: an outcome that this very call leaves
            // unknown is not sent again.
            if (options.resendUnknown !== true || resend === undefined || justNow === true)
              throw error;
            return client.send(order, { idempotencyKey, resend });
          })
          .catch((error: unknown) => {
            if (isUnknown(error))
              throw new CommandFailed(
                `${error.message}; to send it again: the same command with --key ${shellWord(idempotencyKey)} --resend-unknown`,
              );
            // With the key, the same command does not send twice.
            if (
              error instanceof RelayClientError &&
              error.code === "no_answer" &&
              options.key === undefined
            )
              throw new CommandFailed(
                `${(failureOf(error) as Error).message} (the key was ${idempotencyKey})`,
              );
            throw error;
          });
      const { replayed, ...sent } = await withRelay(command, options, io, "send", send, "service");
      print(io, options, sent, () => [
        `${replayed ? "already sent" : "sent"}  ${sent.wamid}  id ${sent.id ?? "unknown"}  key ${sent.idempotencyKey}`,
      ]);
      if (!sent.stored)
        io.err(
          "wamid-relay: it was sent, but the relay cannot store it now; keep its id, and do not send it again",
        );
    });
}

const keyText = matching(/^[\x20-\x7e]{1,256}$/, "It must be 1 to 256 characters of plain ASCII.");
