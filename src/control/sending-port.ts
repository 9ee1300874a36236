/** What the control API asks of sending. Errors are the `RelayError`s of docs/sending.md. */
export interface SendingPort {
  sendMessage(order: MessageRequest, caller: SendCaller): Promise<SendResult>;
  startRun(order: RunRequest, caller: SendCaller): Promise<SendResult>;
}

interface SendRequest {
  /** Not given: the only one. */
  account?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Tries of unknown outcome after which it is sent all the same; 0: none. */
  resend: number;
}

export interface MessageRequest extends SendRequest {
  /** Null: one is made. */
  key: string | null;
  to: string;
  text?: string | undefined;
  template?: { readonly id: string; readonly variables?: Readonly<Record<string, string>> | undefined } | undefined;
  phoneNumberId?: string | undefined;
  reference?: string | undefined;
}

export interface RunRequest extends SendRequest {
  automation: string;
  reference: string;
  phone: string;
  name?: string | undefined;
  data?: Readonly<Record<string, string>> | undefined;
}

export interface SendCaller {
  /** Aborted when nobody waits for the answer any more. */
  readonly gone: AbortSignal;
  /** In ms; not given: as in the settings. */
  readonly maxWait?: number | undefined;
}

export interface SendResult {
  readonly answer: Readonly<Record<string, unknown>>;
  readonly replayed: boolean;
  /** False: it was sent, but cannot be stored now. */
  readonly stored: boolean;
}
