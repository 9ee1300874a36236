import { z } from "zod";
import { hookPath } from "../api/routes.ts";
import { campaignOrder } from "../campaigns/campaigns.ts";
import { parsePhone } from "../messaging/lives.ts";
import { messageStatuses } from "../statuses.ts";
import {
  type AutomationRecord,
  automationOrder,
  type ContactRecord,
  type MessageRecord,
  messageOrigins,
  templateOrder,
} from "../world/records.ts";
import { type Call, type ControlParts, found, pageOf, pageQuery, type Routes, wholeNumber } from "./routes.ts";

const text = z.string().min(1).max(4096);
const customerWord = z.strictObject({ text, name: z.string().max(200).exactOptional(), phoneNumberId: z.string().exactOptional() });
const colleagueReply = z.strictObject({ phone: z.string(), text });
const contactFacts = z.strictObject({
  name: z.string().max(200).exactOptional(),
  attributes: z.record(z.string(), z.string()).exactOptional(),
});
const templateChange = z.strictObject({ status: templateOrder.shape.status.unwrap() });
const messagesQuery = pageQuery.extend({ status: z.enum(messageStatuses).optional(), origin: z.enum(messageOrigins).optional() });
const statusOrder = z.strictObject({
  status: z.enum(messageStatuses),
  errorCode: z.union([z.string(), z.number()]).optional(),
});
const eventsQuery = pageQuery.extend({ event: z.string().optional(), wamid: z.string().optional() });
const newEvent = z.strictObject({ event: z.string().min(1).max(256), data: z.record(z.string(), z.unknown()).default({}) });
const waitQuery = z.strictObject({ forMs: wholeNumber(600_000).default(0) });

const { status: automationStatus, steps } = automationOrder.shape;
const automationChange = z.strictObject({ status: automationStatus.unwrap().exactOptional(), steps: steps.unwrap().exactOptional() });

export function addPeopleRoutes({ on, create }: Routes, { world, messaging, customerWrites }: ControlParts): void {
  // Two words for one thing: a customer's message is the reply to the last campaign message.
  for (const word of ["messages", "replies"]) {
    create(`/customers/:phone/${word}`, ({ account, id, body }) => customerWrites(account.id, { phone: id, ...body(customerWord) }));
  }
  const contactWith = (account: string, phone: string): ContactRecord =>
    found(world.contacts.find(account, parsePhone(phone) ?? phone), `contact ${phone}`);
  create("/colleague/replies", ({ account, body }) => {
    const { phone, text: words } = body(colleagueReply);
    return messaging.reply(contactWith(account.id, phone), words);
  });
  const withConversation = ({ conversationId, customerWroteAt, humanRepliedAt, runId, ...contact }: ContactRecord): object => {
    return { ...contact, conversationId, conversation: { id: conversationId, customerWroteAt, humanRepliedAt, runId } };
  };
  on("GET", "/contacts/:phone", ({ account, id }) => withConversation(contactWith(account.id, id)));
  on("PUT", "/contacts/:phone", ({ account, id, body }) =>
    withConversation(messaging.contactFor(account.id, id, body(contactFacts)).contact),
  );
}

export function addFlowRoutes({ on, create, listed }: Routes, { world, setup, campaigns, url }: ControlParts): void {
  const templateOf = listed("template", world.templates);
  create("/templates", ({ account, body }) => setup.addTemplate(account, body(templateOrder)));
  on("PATCH", "/templates/:id", (call) => world.templates.put(Object.assign(templateOf(call), call.body(templateChange))));
  on("DELETE", "/templates/:id", (call) => world.templates.delete(templateOf(call).id));
  create("/campaigns", ({ account, body }) => campaigns.start(account.id, body(campaignOrder)));

  const shown = (automation: AutomationRecord) => ({
    ...automation,
    hookUrl: automation.trigger === "incoming-webhook" ? `${url()}${hookPath(automation)}` : null,
  });
  const automationOf = listed("automation", world.automations, shown);
  create("/automations", ({ account, body }) => shown(setup.addAutomation(account, body(automationOrder))));
  on("PATCH", "/automations/:id", (call) => shown(world.automations.put(Object.assign(automationOf(call), call.body(automationChange)))));
  on("GET", "/runs", ({ account, query }) => pageOf(world.runs.list(account.id), query(pageQuery)));
  on("GET", "/runs/:id", ({ account, id }) => found(world.runs.of(account.id, id), `run ${id}`));
}

export function addMessageRoutes(
  { on, create }: Routes,
  { world, messaging, events, baseClock }: ControlParts,
  stopping: Promise<void>,
): void {
  const messageOf = ({ account, id }: Call): MessageRecord =>
    found(world.messages.of(account.id, id) ?? world.messages.find(account.id, id), `message ${id}`);
  on("GET", "/messages", ({ account, query }) => {
    const { status, origin, ...page } = query(messagesQuery);
    const matches = (message: MessageRecord) =>
      (status === undefined || message.status === status) && (origin === undefined || message.origin === origin);
    return pageOf(world.messages.list(account.id), page, matches);
  });
  on("GET", "/messages/:id", messageOf);
  on("POST", "/messages/:id/status", (call) => {
    const { status, errorCode } = call.body(statusOrder);
    const message = messageOf(call);
    messaging.setStatus(message, status, errorCode);
    return message;
  });

  on("GET", "/events", ({ account, query }) => {
    const { event, wamid, ...page } = query(eventsQuery);
    const { data, next } = pageOf(
      world.events.list(account.id),
      page,
      (record) => (event === undefined || record.event === event) && (wamid === undefined || record.wamid === wamid),
    );
    const wanted = new Set(data.map(({ id }) => id));
    const deliveries = Map.groupBy(
      world.deliveries.list(account.id).filter(({ eventId }) => wanted.has(eventId)),
      ({ eventId }) => eventId,
    );
    return { data: data.map((record) => ({ ...record, deliveries: deliveries.get(record.id) ?? [] })), next };
  });
  create("/events", ({ account, body }) => {
    const { event, data } = body(newEvent);
    events.publisher.publish(account.id, event, data);
    return found(world.events.list(account.id).at(-1), "event");
  });
  on("GET", "/deliveries/waiting", async ({ query }) => {
    const { forMs } = query(waitQuery);
    if (events.waiting() > 0 && forMs > 0) {
      const late = Promise.withResolvers<void>();
      const cancel = baseClock.after(forMs, late.resolve);
      // A waiting request would hold up a stop.
      await Promise.race([events.idle(), late.promise, stopping]);
      cancel();
    }
    return { waiting: events.waiting() };
  });
}
