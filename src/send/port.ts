import type { KeyHeld, SendKey } from "../event/send-key.ts";

/** What sending asks of the store. Each step is on the disk, or with the other processes, when its promise resolves. */
export interface SendStore {
  /** A call of a process that is no more counts as one of unknown outcome. */
  find(key: SendKey): Promise<StoredSend | null>;
  /**
   * Takes the key as `beginKey` says; null when it is taken, else what holds it. In one step. An error whose `mayBeDone`
   * is true leaves open whether it was taken.
   */
  begin(key: SendKey, claim: StoredClaim): Promise<StoredSend | null>;
  /** Ends the call as `endKey` says; one that is done is registered in the same step. May be told twice. */
  settle(key: SendKey, ended: Ended): Promise<void>;
}

export interface StoredClaim {
  readonly fingerprint: string;
  readonly resend: number;
  /** To whom or what it goes, for people: a masked phone, or the id of an automation. */
  readonly about: string;
  /** Unix ms. */
  readonly at: number;
}

export interface StoredSend extends KeyHeld {
  readonly about: string;
  /** Unix ms at which its latest call was begun. */
  readonly startedAt: number;
  /** What was answered first; null unless it is done. */
  readonly answer: SendAnswer | null;
}

export type SendAnswer = Readonly<Record<string, unknown>>;

export type Ended =
  | { readonly end: "not-done" }
  | { readonly end: "unknown" }
  /** `at`: unix ms. */
  | { readonly end: "done"; readonly at: number; readonly answer: SendAnswer; readonly sent: SentMessage | StartedRun };

/** A message as it is to be registered. */
export interface SentMessage {
  readonly type: "message";
  /** The service's; null when its answer had none. */
  readonly id: string | null;
  readonly wamid: string;
  readonly status: string;
  readonly conversationId: string | null;
  readonly reference: string | undefined;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

/** A run as it is to be registered. */
export interface StartedRun {
  readonly type: "run";
  readonly runId: string;
  readonly reference: string;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

/** What sending asks of the messaging service. Rejects only with what `CallSteps` rejected with, or with a fault that nobody foresaw. */
export interface ServiceCalls {
  sendMessage(account: string, body: MessageBody, steps: CallSteps): Promise<CallResult<Receipt>>;
  startRun(account: string, automation: string, body: RunBody, steps: CallSteps): Promise<CallResult<{ readonly runId: string }>>;
}

/** messaging-service-api.md, "POST /messages". */
export interface MessageBody {
  readonly to: string;
  readonly text?: string | undefined;
  readonly template?: { readonly id: string; readonly variables?: Readonly<Record<string, string>> | undefined } | undefined;
  readonly phoneNumberId?: string | undefined;
}

/** messaging-service-api.md, "POST /automations/{id}/runs". */
export interface RunBody {
  readonly phone: string;
  readonly name?: string | undefined;
  readonly data?: Readonly<Record<string, string>> | undefined;
}

export interface Receipt {
  /** The service's; null when its answer had none. */
  readonly id: string | null;
  readonly wamid: string;
  readonly status: string;
  readonly conversationId: string | null;
}

export interface CallSteps {
  /** Ends the call while it waits; a request on its way goes on. */
  readonly patience: AbortSignal;
  /** There is room under the caps: the request leaves once this resolves. */
  starting(): Promise<void>;
  /** The service surely did nothing; the request leaves again after a wait. */
  repeating(): Promise<void>;
}

export type CallResult<T> =
  | { readonly type: "done"; readonly value: T }
  /** The service surely did nothing; `error` is to be answered, `why` may be logged: there is nothing of people's in it. */
  | { readonly type: "not-done"; readonly error: Error; readonly why: string }
  /** Why nobody knows, in words for people and logs. */
  | { readonly type: "unknown"; readonly reason: string };
