import type { MessageRecord } from "../world/records.ts";

export interface Publisher {
  messageStatus(message: MessageRecord): void;
  /** A customer wrote. The document shows no event for it; Meta has one. */
  messageReceived(message: MessageRecord): void;
  automationCompleted(account: string, runId: string): void;
  automationFailed(account: string, runId: string, error: string): void;
  /** Any other kind, or other data: for what the document does not show. Without `about`, `wamid` and `runId` of `data` say what it is about. */
  publish(
    account: string,
    event: string,
    data: Readonly<Record<string, unknown>>,
    about?: { readonly wamid?: string; readonly runId?: string },
  ): void;
}

export interface Posting {
  resume(): void;
  /** Deliveries not ended yet, those waiting for a retry included, and posts that faults add. */
  waiting(): number;
  /**
   * To be called when a webhook was disabled or deleted: what waits for it is dropped at once. Without
   * the call it is dropped at its turn. A new secret, URL or choice of kinds needs no call.
   */
  webhookChanged(webhookId: string): void;
  idle(): Promise<void>;
  /** Cuts what is in flight; what has not ended stays `waiting` in the records, for `resume`. */
  close(): Promise<void>;
}
