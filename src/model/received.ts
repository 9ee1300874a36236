import type { Envelope } from "./envelope.ts";
import type { AccountName, SourceName } from "./ids.ts";
import type { Subject } from "./subject.ts";

/** How an event came to the relay. All are equal to tracking, and remembered. */
export const origins = ["webhook", "hydrate", "reconcile"] as const;
export type Origin = (typeof origins)[number];

/** The headers kept with an event: those its signature rests on, and, for an automation's request, the content type and encoding. Names in lower case. */
export type KeptHeaders = Readonly<Record<string, string>>;

interface Received {
  readonly account: AccountName;
  readonly source: SourceName;
  readonly origin: Origin;
  /** Unix milliseconds. */
  readonly receivedAt: number;
  /** The bytes as they came in. */
  readonly body: Buffer;
  readonly headers: KeptHeaders;
  /** Fingerprint of the secret that proved the event; null for events the relay made itself. */
  readonly secret: string | null;
}

/** A proved event with a valid envelope. */
export interface ReceivedEvent extends Received {
  readonly envelope: Envelope;
  readonly subject: Subject;
  /** Of an automation's request: how the same signed bytes are known again. */
  readonly request?: string;
  /** Seq of the quarantined body that it was read from; not given: it came as an event. */
  readonly releaseOf?: number;
}

/** Signed by the right secret, but not a valid envelope. */
export interface QuarantinedBody extends Received {
  /** Why it is no envelope. */
  readonly error: string;
}
