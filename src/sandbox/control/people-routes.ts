import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { parsePhone } from "../messaging/phone.ts";
import type { ContactRecord, ConversationRecord, MessageRecord } from "../world/records.ts";
import type { ControlParts } from "./parts.ts";
import { found, read } from "./refusal.ts";
import { accountOf, params } from "./request.ts";

const text = z.string().min(1).max(4096);
const customerWord = z.strictObject({ text, name: z.string().max(200).optional(), phoneNumberId: z.string().optional() });
const colleagueReply = z.strictObject({ phone: z.string(), text });
const contactFacts = z.strictObject({ name: z.string().max(200).optional(), attributes: z.record(z.string(), z.string()).optional() });

/** The people around the service: customers, the human colleague, and the contacts that they are. */
export function addPeopleRoutes(app: FastifyInstance, { world, messaging, customerWrites }: ControlParts): void {
  const write = (request: FastifyRequest): MessageRecord => {
    const account = accountOf(world, request);
    const { phone = "" } = params(request);
    const word = read(customerWord, request.body);
    return customerWrites(account.id, { phone, ...defined(word) });
  };
  // Whatever a customer writes counts as the reply to the last campaign message that they got: two words for one thing.
  for (const word of ["messages", "replies"]) {
    app.post(`/sandbox/customers/:phone/${word}`, (request, reply) => {
      reply.code(201);
      return write(request);
    });
  }
  app.post("/sandbox/colleague/replies", (request, reply) => {
    const account = accountOf(world, request);
    const { phone, text: words } = read(colleagueReply, request.body);
    const contact = contactWith(world, account.id, phone);
    reply.code(201);
    return messaging.reply(account.id, contact.conversationId, words);
  });

  app.get("/sandbox/contacts/:phone", (request) => {
    const { phone = "" } = params(request);
    const account = accountOf(world, request);
    return withConversation(world, contactWith(world, account.id, phone));
  });
  app.put("/sandbox/contacts/:phone", (request) => {
    const { phone = "" } = params(request);
    const account = accountOf(world, request);
    const { contactId } = messaging.contactFor(account.id, phone, defined(read(contactFacts, request.body)));
    return withConversation(world, found(world.contacts.get(contactId), `contact ${phone}`));
  });
}

/** By a phone written in any way that sending takes. */
function contactWith(world: ControlParts["world"], account: string, phone: string): ContactRecord {
  return found(world.contacts.find(account, parsePhone(phone) ?? phone), `contact ${phone}`);
}

/** Keys that were not given left out, as optional properties want it. */
function defined<T extends object>(given: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

function withConversation(world: ControlParts["world"], contact: ContactRecord): object {
  const conversation = world.conversations.get(contact.conversationId);
  return { ...contact, conversation: conversation === undefined ? null : shownConversation(conversation) };
}

function shownConversation({ id, customerWroteAt, humanRepliedAt, runId }: ConversationRecord) {
  return { id, customerWroteAt, humanRepliedAt, runId };
}
