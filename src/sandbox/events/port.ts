import type { MessageRecord } from "../world/records.ts";

/** Where the parts of the service say that something happened. */
export interface Publisher {
  /** The status of a sent message changed. */
  messageStatus(message: MessageRecord): void;
  automationCompleted(account: string, runId: string): void;
  automationFailed(account: string, runId: string, error: string): void;
  /** Any other kind, or other data: for what the document does not show. */
  publish(
    account: string,
    event: string,
    data: Readonly<Record<string, unknown>>,
    about?: { readonly wamid?: string; readonly runId?: string },
  ): void;
}

/** The posts of events to webhook URLs. */
export interface Posting {
  /** Takes up the deliveries that a state file remembers. */
  resume(): void;
  /** Deliveries not ended yet, those waiting for a retry included. */
  waiting(): number;
  /** Resolves once nothing waits. */
  idle(): Promise<void>;
  close(): Promise<void>;
}
