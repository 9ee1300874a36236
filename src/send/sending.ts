import { createHash } from "node:crypto";
import type { z } from "zod";
import type { messageBody, runBody } from "../model/endpoints/send.ts";
import type { SendResult } from "../model/send.ts";
import { type Caller, type CallResult, type CallSteps, createOnce, type OnceParts, type Order } from "./once.ts";

/** Rejects with what `CallSteps` rejected with, or with an unexpected error. */
export interface ServiceCalls {
  sendMessage(account: string, body: MessageBody, steps: CallSteps): Promise<CallResult<Receipt>>;
  startRun(account: string, automation: string, body: RunBody, steps: CallSteps): Promise<CallResult<{ readonly runId: string }>>;
}

type MessageFields = z.infer<typeof messageBody>;
type RunFields = z.infer<typeof runBody>;
type MessageBody = Omit<MessageFields, "account" | "reference" | "metadata">;
type RunBody = Omit<RunFields, "account" | "reference" | "metadata">;

interface Receipt {
  readonly id: string | null;
  readonly wamid: string;
  readonly status: string;
  readonly conversationId: string | null;
}

interface OrderParts {
  readonly account: string;
  /** The attempts of unknown outcome, as `outcome_unknown` reported; 0: never. */
  readonly resend: number;
}
type MessageOrder = MessageFields & OrderParts & { readonly key: string };
type RunOrder = RunFields & OrderParts & { readonly automation: string };

interface SendingParts extends OnceParts {
  readonly calls: ServiceCalls;
}

export type Sending = ReturnType<typeof createSending>;

export function createSending({ calls, ...parts }: SendingParts) {
  const once = createOnce(parts);
  const { now } = parts.clock;

  function messageOrder({ account, key, resend, reference, metadata, ...body }: MessageOrder): Order {
    return {
      key: { account, kind: "message", key },
      fingerprint: fingerprintOf({ ...body, reference, metadata }),
      about: maskPhone(body.to),
      resend,
      async call(steps) {
        const result = await calls.sendMessage(account, body, steps);
        if (result.type !== "done") return result;
        const { id, wamid, status, conversationId } = result.value;
        const answer = { account, idempotencyKey: key, id, wamid, status, conversationId, reference: reference ?? null };
        const sent = { type: "message", id, wamid, status, conversationId, reference, metadata } as const;
        return { type: "done", value: { end: "done", at: now(), answer, sent } };
      },
    };
  }

  function runOrder({ account, automation, reference, resend, metadata, ...body }: RunOrder): Order {
    return {
      key: { account, kind: "run", key: reference },
      fingerprint: fingerprintOf({ ...body, automation, metadata }),
      about: automation,
      resend,
      async call(steps) {
        const result = await calls.startRun(account, automation, body, steps);
        if (result.type !== "done") return result;
        const { runId } = result.value;
        const answer = { account, reference, runId, automation };
        return { type: "done", value: { end: "done", at: now(), answer, sent: { type: "run", runId, reference, metadata } } };
      },
    };
  }

  return {
    sendMessage: (order: MessageOrder, caller: Caller): Promise<SendResult> => once.send(messageOrder(order), caller),
    startRun: (order: RunOrder, caller: Caller): Promise<SendResult> => once.send(runOrder(order), caller),
    close: once.close,
  };
}

/** Enough for people who know the number. */
function maskPhone(phone: string): string {
  return `${phone.length < 10 ? "" : phone.slice(0, 3)}…${phone.slice(-2)}`;
}

/** Whatever the order of the keys. */
export function fingerprintOf(body: unknown): string {
  return createHash("sha256").update(canonical(body)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
