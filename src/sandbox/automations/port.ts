import type { AutomationRecord, ConversationRecord, MessageRecord, RunRecord } from "../world/records.ts";

/** Automations and their runs. Methods throw ApiFault as the document's rules say. */
export interface Automations {
  start(
    account: string,
    automation: AutomationRecord,
    request: { readonly phone: string; readonly name?: string; readonly data: Readonly<Record<string, string>> },
  ): RunRecord;
  /** A customer wrote: starts what has the trigger `customer-message`, unless a human replied within 24 hours or a run is in progress. */
  customerWrote(account: string, conversation: ConversationRecord, message: MessageRecord): void;
  /**
   * A message's status changed. A run goes on once its message has left, and fails when one of its messages does, so
   * the composition root calls this with all that `Publisher.messageStatus` is called with.
   */
  messageChanged(message: MessageRecord): void;
  resume(): void;
  close(): Promise<void>;
}
