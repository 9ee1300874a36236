import type { MessageStatus } from "../statuses.ts";
import type { ConversationRecord, MessageOrigin, MessageRecord } from "../world/records.ts";

/** Exactly one of `text` and `template`. */
export interface OutgoingMessage {
  readonly to: string;
  readonly phoneNumberId?: string;
  readonly text?: string;
  readonly template?: { readonly id: string; readonly variables?: Readonly<Record<string, string>> };
  readonly campaignId?: string;
  /** `biz_opaque_callback_data`. */
  readonly reference?: string;
  /** As Meta does it: text outside the 24-hour window is accepted, and fails with 131047 afterwards. */
  readonly failsLater?: boolean;
}

/** Every method throws ApiFault as the document's rules say. */
export interface Messaging {
  send(account: string, message: OutgoingMessage, origin: Exclude<MessageOrigin, "customer">): MessageRecord;
  /** Opens the 24-hour window. */
  receive(
    account: string,
    from: { readonly phone: string; readonly name?: string; readonly text: string; readonly phoneNumberId?: string },
  ): MessageRecord;
  /** Automations keep still there for 24 hours. */
  reply(account: string, conversationId: string, text: string): MessageRecord;
  /** The rest of the message's life is called off. */
  setStatus(account: string, messageId: string, status: MessageStatus, errorCode?: string | number): MessageRecord;
  /** Finds or creates. Throws 402 at the contact limit, 400 for what is no phone. */
  contactFor(
    account: string,
    phone: string,
    facts?: { readonly name?: string; readonly attributes?: Readonly<Record<string, string>> },
  ): {
    readonly conversation: ConversationRecord;
    readonly contactId: string;
    readonly isNew: boolean;
  };
  resume(): void;
}
