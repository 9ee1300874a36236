import type { AttemptResult, UrlResult } from "../../event/delivery.ts";
import type { DeliveryId } from "../../event/ids.ts";
import type { KeptHeaders } from "../../event/received.ts";

/** A delivery as it leaves the relay. */
export interface OutgoingDelivery {
  /** The same over all attempts and replays: downstream dedupes by it. */
  readonly id: DeliveryId;
  /** Event kind. */
  readonly event: string;
  readonly eventId: string | null;
  /** 1 for the first. */
  readonly attempt: number;
  /** How often somebody asked for it once more; 0: it is no replay. */
  readonly replays: number;
  /** What to send, already original or enriched. */
  readonly body: Buffer;
  readonly contentType: string;
  /** Of an automation's request that said one: `body` is as it came, compressed or not. */
  readonly contentEncoding: string | null;
  /** The original signature headers; `{}` unless the destination asks for them. */
  readonly passHeaders: KeptHeaders;
}

/** What came of one attempt. */
export interface AttemptOutcome<Result extends AttemptResult = AttemptResult> {
  readonly result: Result;
  readonly tookMs: number;
  /** The first 4 KiB of the answer's body, or the text of the error. */
  readonly response: Buffer | null;
  /** The answer's content type, when there was an answer that said it. */
  readonly responseType?: string | null;
  /** Its content encoding: `response` is as it came, compressed or not. */
  readonly responseEncoding?: string | null;
}

/** Where deliveries go. The port of the dispatcher. */
export interface Destination<Result extends AttemptResult = AttemptResult> {
  /** One attempt. Never rejects: what happened is data. `signal` aborts it (shutdown). */
  send(delivery: OutgoingDelivery, signal: AbortSignal): Promise<AttemptOutcome<Result>>;
  /** Ends all connections. Attempts still under way end as `aborted`. */
  close(): Promise<void>;
}

export type UrlOutcome = AttemptOutcome<UrlResult>;
export type UrlDestination = Destination<UrlResult>;
