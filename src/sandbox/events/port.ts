import type { MessageRecord } from "../world/records.ts";

export interface Publisher {
  messageStatus(message: MessageRecord): void;
  /** The document shows no event for it; Meta has one. */
  messageReceived(message: MessageRecord): void;
  automationCompleted(account: string, runId: string): void;
  automationFailed(account: string, runId: string, error: string): void;
  /** For what the document does not show. Without `about`, `data` says what it is about. */
  publish(
    account: string,
    event: string,
    data: Readonly<Record<string, unknown>>,
    about?: { readonly wamid?: string; readonly runId?: string },
  ): void;
}

export interface Posting {
  resume(): void;
  /** Deliveries and side posts that have not ended. */
  waiting(): number;
  /** After a webhook was disabled or deleted: drops what waits for it. */
  webhookChanged(webhookId: string): void;
  idle(): Promise<void>;
  /** What has not ended stays `waiting` in the records, for `resume`. */
  close(): Promise<void>;
}
