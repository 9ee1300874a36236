import { fingerprintOf } from "./fingerprint.ts";
import { type Caller, createOnce, type OnceParts, type Order, type Sent } from "./once.ts";
import type { MessageBody, RunBody, ServiceCalls } from "./port.ts";

interface OrderParts {
  readonly account: string;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Tries of unknown outcome after which it is sent all the same, as `outcome_unknown` told; 0: none. */
  readonly resend: number;
}

export interface MessageOrder extends OrderParts, MessageBody {
  readonly key: string;
  readonly reference?: string | undefined;
}

export interface RunOrder extends OrderParts, RunBody {
  readonly automation: string;
  /** The business record that it is for: its key, for ever. */
  readonly reference: string;
}

export interface SendingParts extends OnceParts {
  readonly calls: ServiceCalls;
}

export type Sending = ReturnType<typeof createSending>;

/** Messages sent and runs started through the relay, each once under its key, and registered before they are answered. */
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
    sendMessage: (order: MessageOrder, caller: Caller): Promise<Sent> => once.send(messageOrder(order), caller),
    startRun: (order: RunOrder, caller: Caller): Promise<Sent> => once.send(runOrder(order), caller),
    close: once.close,
  };
}

/** Enough for who knows the number to see that it is meant; of a short one the end only. */
function maskPhone(phone: string): string {
  return `${phone.length < 10 ? "" : phone.slice(0, 3)}…${phone.slice(-2)}`;
}
