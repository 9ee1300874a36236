import type { QuarantinedBody, ReceivedEvent } from "../event/received.ts";

/** What receiving needs of the rest: to make an event durable. Both reject when it cannot be stored now. */
export interface Accepting {
  /** Resolves once the event is on the disk, with whether its id was new. */
  event(event: ReceivedEvent): Promise<{ readonly result: "accepted" | "duplicate" }>;
  quarantine(body: QuarantinedBody): Promise<void>;
  /**
   * The exchange of a `mode: proxy` source: stores the request, sends it to the source's destination
   * and resolves with the answer to pass back. Rejects with a `RelayError` when there is none.
   */
  proxy(event: ReceivedEvent): Promise<ProxiedAnswer>;
}

/** What of a downstream's answer is passed back; its other headers are not. */
export interface ProxiedAnswer {
  readonly status: number;
  readonly contentType: string | null;
  readonly contentEncoding: string | null;
  readonly body: Buffer;
}
