import type { Clock } from "../../model/clock.ts";
import type { ContactRecord, ConversationRecord } from "../world/records.ts";
import { firstAfter, type World } from "../world/world.ts";
import { contactLimitReached } from "./refusals.ts";

export interface ContactFacts {
  readonly name?: string;
  readonly attributes?: Readonly<Record<string, string>>;
}

export interface Contact {
  readonly contact: ContactRecord;
  readonly conversation: ConversationRecord;
}

export function createContacts({ world, clock, ids }: { world: World; clock: Clock; ids: () => string }) {
  return {
    find(account: string, phone: string): Contact | null {
      const contact = world.contacts.find(account, phone);
      return contact === undefined ? null : { contact, conversation: conversationOf(world, contact) };
    },
    /** Throws 402 when the account may not have one more. */
    admitOne(account: string): void {
      const record = world.accounts.get(account);
      const limit = record?.contactLimit ?? null;
      const used = world.contacts.list(account).length;
      if (record !== undefined && limit !== null && used >= limit) throw contactLimitReached(record, limit, used);
    },
    create(account: string, phone: string, { name, attributes }: ContactFacts = {}): Contact {
      const owned = { account, createdAt: clock.now() };
      const id = ids();
      const conversationId = ids();
      const contact: ContactRecord = { ...owned, id, phone, name: name ?? null, attributes: { ...attributes }, conversationId };
      const conversation: ConversationRecord = {
        ...owned,
        id: conversationId,
        contactId: id,
        customerWroteAt: null,
        humanRepliedAt: null,
        runId: null,
      };
      world.contacts.put(contact);
      world.conversations.put(conversation);
      return { contact, conversation };
    },
    /** The sandbox's choice: attributes are added to those there are. */
    update(contact: ContactRecord, { name, attributes }: ContactFacts): void {
      if (name === undefined && attributes === undefined) return;
      contact.name = name ?? contact.name;
      contact.attributes = { ...contact.attributes, ...attributes };
      world.contacts.put(contact);
    },
  };
}

function conversationOf(world: World, contact: ContactRecord): ConversationRecord {
  const conversation = world.conversations.get(contact.conversationId);
  if (conversation === undefined) throw new Error(`contact ${contact.id} has lost its conversation`);
  return conversation;
}

interface ContactPage {
  readonly data: readonly ContactRecord[];
  readonly next: string | null;
}

/** "GET /contacts". A full page has a `next` even when nothing follows. The sandbox's choice: `after` need not exist. */
export function contactPage(contacts: readonly ContactRecord[], { limit, after }: { limit: number; after?: string }): ContactPage {
  const start = after === undefined ? 0 : firstAfter(contacts, after);
  const data = contacts.slice(start, start + limit);
  return { data, next: data.length === limit ? (data.at(-1)?.id ?? null) : null };
}

const windowMs = 24 * 60 * 60 * 1000;

/** The customer wrote within the last 24 hours. */
export function isWindowOpen({ customerWroteAt }: Pick<ConversationRecord, "customerWroteAt">, now: number): boolean {
  return customerWroteAt !== null && now - customerWroteAt <= windowMs;
}
