import type { Clock } from "../../model/clock.ts";
import type { Publisher } from "../events/publisher.ts";
import { createWamids, type Random } from "../ids.ts";
import type { MessageStatus } from "../statuses.ts";
import type { MessageOrigin, MessageRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { type Contact, type ContactFacts, createContacts, isWindowOpen } from "./contacts.ts";
import { createCampaignTotals, createLives, planLife } from "./lives.ts";
import { createProvider, requirePhone, sendingNumber } from "./numbers.ts";
import { conversationNotFound, messageNotFound, noSuchNumber, notOurStatus, windowClosed } from "./refusals.ts";
import { fillTemplate, templateToSend } from "./templates.ts";

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

export interface IncomingMessage {
  readonly phone: string;
  readonly name?: string;
  readonly text: string;
  readonly phoneNumberId?: string;
}

interface Parts {
  readonly world: World;
  readonly clock: Clock;
  readonly ids: () => string;
  readonly random: Random;
  readonly speed: number;
  readonly publisher: Publisher;
}

type Content = Pick<MessageRecord, "text" | "templateId">;

/** In digits (E.164): a wamid holds no more. */
const longestRealPhone = 15;
/** The document has a code present whenever a message failed. */
const unnamedFailure = 131000;
const windowClosedCode = 131047;

export type Messaging = ReturnType<typeof createMessaging>;

/** Messages, conversations and contacts of all accounts. Every method throws ApiFault as the document's rules say. */
export function createMessaging({ world, clock, ids, random, speed, publisher }: Parts) {
  const totals = createCampaignTotals(world);
  const contacts = createContacts({ world, clock, ids });
  const lives = createLives({ world, clock, publisher, totals });
  const provider = createProvider();
  const newWamid = createWamids(random.fork("wamids"));
  const lifeRandom = random.fork("lives");

  const accountOf = (name: string) => {
    const account = world.accounts.get(name);
    if (account === undefined) throw new Error(`there is no account ${name}`);
    return account;
  };
  const isTooLate = (to: Contact | null) => to === null || !isWindowOpen(to.conversation, clock.now());
  const contentOf = (account: string, { text, template, failsLater }: OutgoingMessage, to: Contact | null): Content => {
    if (template !== undefined) {
      const found = templateToSend(world, account, template.id);
      return { text: fillTemplate(found, template.variables ?? {}, to?.contact ?? null), templateId: found.id };
    }
    if (failsLater !== true && isTooLate(to)) throw windowClosed();
    return { text: text as string, templateId: null };
  };
  const record = (
    { contact, conversation }: Contact,
    about: Content & Pick<MessageRecord, "origin" | "phoneNumberId" | "status" | "campaignId" | "reference">,
  ): MessageRecord => ({
    id: ids(),
    account: contact.account,
    createdAt: clock.now(),
    wamid: newWamid(contact.phone.slice(1, 1 + longestRealPhone)),
    contactId: contact.id,
    conversationId: conversation.id,
    phone: contact.phone,
    statusAt: clock.now(),
    future: [],
    ...about,
  });

  const send = (account: string, message: OutgoingMessage, origin: Exclude<MessageOrigin, "customer">): MessageRecord => {
    const phone = requirePhone(message.to);
    const { phoneNumberId } = sendingNumber(accountOf(account), message.phoneNumberId);
    const known = contacts.find(account, phone);
    const content = contentOf(account, message, known);
    if (known === null) contacts.admitOne(account);
    provider.accept(account, phone);
    const life = planLife(phone, { now: clock.now(), random: lifeRandom, speed });
    const willFail = content.templateId === null && isTooLate(known);
    // From here on nothing refuses it: what was refused created nothing.
    const sent = record(known ?? contacts.create(account, phone), {
      ...content,
      origin,
      phoneNumberId,
      status: "pending",
      campaignId: message.campaignId ?? null,
      ...(message.reference === undefined ? {} : { reference: message.reference }),
    });
    sent.future = willFail ? life.slice(0, 1).map(({ at }) => ({ at, status: "failed", errorCode: windowClosedCode })) : life;
    world.messages.put(sent);
    totals.messaged(sent);
    lives.follow(sent);
    return sent;
  };
  return {
    send,
    /** Opens the 24-hour window. */
    receive(account: string, { phone: text, name, text: body, phoneNumberId: wanted }: IncomingMessage): MessageRecord {
      const phone = requirePhone(text);
      const { numbers } = accountOf(account);
      if (wanted !== undefined && !numbers.some((number) => number.phoneNumberId === wanted)) throw noSuchNumber();
      // The contact limit "applies only" to POST /contacts and messaging.
      const from = contacts.find(account, phone) ?? contacts.create(account, phone);
      if (name !== undefined && from.contact.name === null) contacts.update(from.contact, { name });
      from.conversation.customerWroteAt = clock.now();
      world.conversations.put(from.conversation);
      const phoneNumberId = wanted ?? (numbers.find(({ isConnected }) => isConnected) ?? numbers[0])?.phoneNumberId ?? "";
      const content = { text: body, templateId: null, campaignId: null };
      const received = record(from, { ...content, origin: "customer", phoneNumberId, status: "received" });
      world.messages.put(received);
      totals.replied(from.contact.id);
      return received;
    },
    /** A human colleague's: automations keep still there for 24 hours. */
    reply(account: string, conversationId: string, text: string): MessageRecord {
      const conversation = world.conversations.of(account, conversationId);
      const contact = conversation === undefined ? undefined : world.contacts.get(conversation.contactId);
      if (conversation === undefined || contact === undefined) throw conversationNotFound();
      const sent = send(account, { to: contact.phone, text }, "chat");
      conversation.humanRepliedAt = clock.now();
      world.conversations.put(conversation);
      return sent;
    },
    /** The rest of the message's life is called off. */
    setStatus(account: string, messageId: string, status: MessageStatus, errorCode?: string | number): MessageRecord {
      const message = world.messages.of(account, messageId);
      if (message === undefined) throw messageNotFound();
      if ([message.status, status].includes("received")) throw notOurStatus();
      lives.move(message, status, status === "failed" ? (errorCode ?? message.errorCode ?? unnamedFailure) : undefined);
      return message;
    },
    /** Finds or creates. Throws 402 at the contact limit, 400 for what is no phone. */
    contactFor(account: string, text: string, facts: ContactFacts = {}) {
      const phone = requirePhone(text);
      const known = contacts.find(account, phone);
      if (known !== null) {
        contacts.update(known.contact, facts);
        return { conversation: known.conversation, contactId: known.contact.id, isNew: false };
      }
      contacts.admitOne(account);
      const { contact, conversation } = contacts.create(account, phone, facts);
      return { conversation, contactId: contact.id, isNew: true };
    },
    resume(): void {
      totals.resume();
      for (const message of world.messages.all()) lives.follow(message);
    },
  };
}
