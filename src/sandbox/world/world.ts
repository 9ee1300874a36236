import { digitsOf } from "../meta/update.ts";
import type {
  AccountRecord,
  AppRecord,
  AutomationRecord,
  CampaignRecord,
  ContactRecord,
  ConversationRecord,
  DeliveryRecord,
  EventRecord,
  KeyRecord,
  MessageRecord,
  RecipientsRecord,
  RunRecord,
  TemplateRecord,
  WebhookRecord,
} from "./records.ts";
import { createTable, type Journal } from "./table.ts";

/** Events and their deliveries that are kept to be looked at; older ones are forgotten. */
const mostEvents = 200_000;
/** Of about 1 KB each (`bench/sandbox.ts`). */
export const usualMessages = 500_000;

export type World = ReturnType<typeof createWorld>;

/** Everything the sandbox remembers; of messages to which nothing more will happen the last `keepMessages`. */
export function createWorld(journal: Journal, { keepMessages = usualMessages }: { readonly keepMessages?: number } = {}) {
  return {
    accounts: createTable<AccountRecord>("account", journal),
    /** Second key: the key's text. */
    keys: createTable<KeyRecord>("key", journal, { keyOf: ({ key }) => key }),
    webhooks: createTable<WebhookRecord>("webhook", journal),
    /** Second key: the token. */
    apps: createTable<AppRecord>("app", journal, { keyOf: ({ token }) => token }),
    /** Second key: the phone, with its plus. */
    contacts: createTable<ContactRecord>("contact", journal, { keyOf: ({ phone }) => phone }),
    conversations: createTable<ConversationRecord>("conversation", journal),
    templates: createTable<TemplateRecord>("template", journal),
    /** Second key: the wamid. */
    messages: createTable<MessageRecord>("message", journal, {
      keyOf: ({ wamid }) => wamid,
      most: keepMessages,
      isOver: ({ future }) => future.length === 0,
    }),
    campaigns: createTable<CampaignRecord>("campaign", journal),
    recipients: createTable<RecipientsRecord>("recipients", journal),
    /** Second key: the id in the path of its incoming webhook. */
    automations: createTable<AutomationRecord>("automation", journal, { keyOf: ({ hookId }) => hookId }),
    runs: createTable<RunRecord>("run", journal),
    events: createTable<EventRecord>("event", journal, { most: mostEvents }),
    deliveries: createTable<DeliveryRecord>("delivery", journal, { most: mostEvents }),
  };
}

/** The account of which everything is set up at the first start. */
export const mainAccount = "main";

/** Id of an account's business account at the network provider: the sandbox's choice. */
export function wabaIdOf(account: string): string {
  return account === mainAccount ? "102290129340398" : digitsOf(`waba/${account}`, 15);
}
