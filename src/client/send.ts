import type { Connection } from "./connection.ts";
import { RelayClientError } from "./relay-client-error.ts";

/** What `POST /v1/messages` takes; exactly one of `text` and `template`. */
export interface MessageOrder {
  /** Phone with country code, `+` first. */
  to: string;
  /** Only within 24 hours of the customer's last message. */
  text?: string | undefined;
  template?: { id: string; variables?: Readonly<Record<string, string>> | undefined } | undefined;
  /** Needed when the relay's settings have several. */
  account?: string | undefined;
  /** The sending number, when several are connected. */
  phoneNumberId?: string | undefined;
  /** Your own name for it, such as an order number. */
  reference?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface RunOrder {
  /** The business record: one run for each, for ever. */
  reference: string;
  phone: string;
  name?: string | undefined;
  data?: Readonly<Record<string, string>> | undefined;
  account?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface SendOptions {
  /** `details.resend` of the error `outcome_unknown`: sends although nobody knows whether it was sent before. */
  resend?: number | undefined;
  /** Longest wait for room under the caps, in milliseconds; as in the relay's settings when not given. */
  maxWaitMs?: number | undefined;
}

export interface MessageOptions extends SendOptions {
  /** The same key sends once. Not given: one is made, and named in the answer, or in `details` when none came. */
  idempotencyKey?: string | undefined;
}

export interface SentMessage {
  account: string;
  idempotencyKey: string;
  /** The service's; null when its answer had none. */
  id: string | null;
  wamid: string;
  status: string;
  conversationId: string | null;
  reference: string | null;
  /** False: it was sent, but the relay cannot store it now. Keep `id` and `wamid`, and do not send it again. */
  stored: boolean;
  /** It had been sent before, under the same key: this is the first answer. */
  replayed: boolean;
}

export interface StartedRun {
  account: string;
  reference: string;
  runId: string;
  automation: string;
  /** False: the run of this reference had been started before. */
  created: boolean;
  stored: boolean;
}

export async function sendMessage(connection: Connection, order: MessageOrder, options: MessageOptions): Promise<SentMessage> {
  const { idempotencyKey = globalThis.crypto.randomUUID(), ...rest } = options;
  if (!/^[\x20-\x7e]{1,256}$/.test(idempotencyKey)) throw new TypeError("idempotencyKey must be 1 to 256 characters of plain ASCII");
  try {
    const { body, headers } = await connection.post<Omit<SentMessage, "replayed">>(`/v1/messages${queryOf(rest)}`, order, {
      "idempotency-key": idempotencyKey,
    });
    return { ...body, replayed: headers.get("idempotent-replayed") === "true" };
  } catch (error) {
    // Whoever lost the answer must be able to ask again without sending again.
    if (!(error instanceof RelayClientError) || error.details !== undefined) throw error;
    const { message, status, code, cause } = error;
    throw new RelayClientError(message, { status, code, cause, details: { idempotencyKey } });
  }
}

export function startRun(connection: Connection, automation: string, order: RunOrder, options: SendOptions): Promise<StartedRun> {
  return connection.json("POST", `/v1/automations/${encodeURIComponent(automation)}/runs${queryOf(options)}`, order);
}

function queryOf({ resend, maxWaitMs }: SendOptions): string {
  const query = new URLSearchParams();
  if (resend !== undefined) query.set("resend", String(resend));
  if (maxWaitMs !== undefined) query.set("maxWait", `${Math.round(maxWaitMs)}ms`);
  return query.size === 0 ? "" : `?${query}`;
}
