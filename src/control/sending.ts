import type { z } from "zod";
import type { sentMessageSchema, startedRunSchema } from "../model/answers/subjects.ts";
import type { messageBody, runBody } from "../model/endpoints/send.ts";
import { RelayError } from "../model/errors.ts";
import type { Limited } from "../model/queries.ts";
import type { SendResult } from "../model/send.ts";
import type { View } from "../model/view.ts";
import type { Context, Handlers } from "./endpoint.ts";

/** Methods throw the `RelayError`s of docs/concepts/sending.md. */
export interface SendingPort {
  sendMessage(order: MessageRequest, caller: SendCaller): Promise<SendResult>;
  startRun(order: RunRequest, caller: SendCaller): Promise<SendResult>;
}

interface SendRequest extends Limited {
  /** Number of attempts with unknown outcome despite which it is sent again; 0: none. */
  readonly resend: number;
}

/** `key` null: the relay makes one. */
type MessageRequest = z.infer<typeof messageBody> & SendRequest & { readonly key: string | null };
type RunRequest = z.infer<typeof runBody> & SendRequest & { readonly automation: string };

export interface SendCaller {
  readonly gone: AbortSignal;
  /** In ms. Default: the setting. */
  readonly maxWait?: number | undefined;
  readonly traceparent?: unknown;
}

export function createSendingHandlers(sending: SendingPort) {
  return {
    async sendMessage({ resend = 0, maxWait, "idempotency-key": key = null, ...message }, context) {
      const { request, reply } = context;
      if (key === null && resend > 0)
        throw new RelayError("bad_request", "resend needs the Idempotency-Key that it is about");
      request.about = [message.to, message.text, message.template?.variables, message.metadata];
      const { answer, replayed, stored } = await sending.sendMessage(
        { ...message, key, resend },
        callerOf(context, maxWait),
      );
      if (replayed) reply.header("idempotent-replayed", "true");
      reply.code(stored ? 201 : 202);
      return { ...(answer as Omit<View<typeof sentMessageSchema>, "stored">), stored };
    },
    async startRun({ id: automation, resend = 0, maxWait, ...run }, context) {
      const { request, reply } = context;
      request.about = [{ name: run.name }, run.phone, run.data, run.metadata];
      const { answer, replayed, stored } = await sending.startRun(
        { ...run, automation, resend },
        callerOf(context, maxWait),
      );
      reply.code(!stored ? 202 : replayed ? 200 : 201);
      return {
        ...(answer as Omit<View<typeof startedRunSchema>, "created" | "stored">),
        created: !replayed,
        stored,
      };
    },
  } satisfies Partial<Handlers>;
}

function callerOf({ request, gone }: Context, maxWait: number | undefined): SendCaller {
  return { gone: gone(), maxWait, traceparent: request.headers["traceparent"] };
}
