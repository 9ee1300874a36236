import type { MessageStatus } from "../statuses.ts";
import type { ConversationRecord, MessageOrigin, MessageRecord } from "../world/records.ts";

/** A message to send, checked for types already. Exactly one of `text` and `template`. */
export interface OutgoingMessage {
  readonly to: string;
  readonly phoneNumberId?: string;
  readonly text?: string;
  readonly template?: { readonly id: string; readonly variables?: Readonly<Record<string, string>> };
  readonly campaignId?: string;
  /** `biz_opaque_callback_data`. */
  readonly reference?: string;
  /** As Meta does it: text outside the 24-hour window is accepted, and `failed` with 131047 afterwards. Not given: it is refused. */
  readonly failsLater?: boolean;
}

/** Messages, conversations and contacts of all accounts. Every method throws ApiFault as the document's rules say. */
export interface Messaging {
  /** Sends, which may create the contact. Status `pending`; its life goes on by itself. */
  send(account: string, message: OutgoingMessage, origin: Exclude<MessageOrigin, "customer">): MessageRecord;
  /** The customer writes: opens the 24-hour window. Without `phoneNumberId`, to the first connected number. */
  receive(
    account: string,
    from: { readonly phone: string; readonly name?: string; readonly text: string; readonly phoneNumberId?: string },
  ): MessageRecord;
  /** A human colleague replies in the chat: automations keep still there for 24 hours. */
  reply(account: string, conversationId: string, text: string): MessageRecord;
  /** Moves a message now, whatever its life had in store; the rest of that life is called off. */
  setStatus(account: string, messageId: string, status: MessageStatus, errorCode?: string | number): MessageRecord;
  /** Finds or creates; `402` when the contact limit is reached. Text that is no international phone gives 400. */
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
