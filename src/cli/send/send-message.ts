import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import { z } from "zod";
import type { ControlAnswer, ControlClient } from "../control-client.ts";
import { readAnswer } from "../control-views.ts";
import { CommandFailed, type Io } from "../io.ts";
import { printable, printableJson, privateView } from "../output.ts";
import { expectDone, withWriting } from "../reach-relay.ts";
import type { SendOptions } from "../send-command.ts";

const sentSchema = z.looseObject({ id: z.string().nullable(), wamid: z.string(), idempotencyKey: z.string(), stored: z.boolean() });
const unknownSchema = z.object({ code: z.literal("outcome_unknown"), details: z.object({ resend: z.number(), justNow: z.boolean() }) });

/** Sends one message and prints what came of it. */
export async function sendMessage(command: Command, options: SendOptions, io: Io): Promise<void> {
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

  const answer = await withWriting(command, options, io, "send", (client) => send(client, body, key, options.resendUnknown === true)).catch(
    (error: unknown) => {
      // Whoever lost the answer must be able to ask again without sending again.
      if (error instanceof CommandFailed && options.key === undefined) throw new CommandFailed(`${error.message} (the key was ${key})`);
      throw error;
    },
  );
  const view = privateView(options.showPii);
  if (unknownSchema.safeParse(answer.json).success) {
    const { error } = answer.json as { error?: unknown };
    throw new CommandFailed(
      `${printable(view.text(String(error)))}; to send it again: the same command with --key ${printable(key)} --resend-unknown`,
    );
  }
  const sent = readAnswer(sentSchema, expectDone(answer));
  if (options.json === true) io.out(printableJson(answer.json));
  else
    io.out(
      printable(
        `${answer.isReplayed ? "sent before" : "sent"}  ${view.subject({ type: "message", key: sent.wamid })}  id ${sent.id ?? "unknown"}  key ${sent.idempotencyKey}`,
      ),
    );
  if (!sent.stored) io.err("wamid-relay: it was sent, but the relay cannot store it now; keep its id, and do not send it again");
}

/** An outcome that was unknown before this command is what `resend` is about; one that this very call leaves is not. */
async function send(client: ControlClient, body: unknown, key: string, resend: boolean): Promise<ControlAnswer> {
  const headers = { "idempotency-key": key };
  const answer = await client.request("POST", "/v1/messages", body, headers);
  const unknown = unknownSchema.safeParse(answer.json);
  if (!resend || !unknown.success || unknown.data.details.justNow) return answer;
  return client.request("POST", `/v1/messages?resend=${unknown.data.details.resend}`, body, headers);
}
