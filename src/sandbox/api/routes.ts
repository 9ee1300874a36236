import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { parsePhone } from "../messaging/lives.ts";
import {
  approvedTemplates,
  outgoingBodySchema,
  receiptOf,
  templateView,
} from "../messaging/messaging.ts";
import type { Service } from "../service.ts";
import { firstAfter } from "../table.ts";
import { type AutomationRecord, accountOf, type ContactRecord } from "../world.ts";
import { callerOf } from "./app.ts";
import { checked, refused } from "./fault.ts";

const iso = (ms: number) => new Date(ms).toISOString();

const contactsQuery = z.object({
  limit: z
    .string("Tiene que venir una sola vez.")
    .regex(/^\d+$/, "Tiene que ser un número entero de 1 a 200.")
    .transform(Number)
    .pipe(z.number().min(1).max(200))
    .default(50),
  after: z.guid("Tiene que ser un UUID.").toLowerCase().default(""),
  phone: z.string().optional(),
});

const contactBody = z.object({
  phone: z.string(),
  name: z.string().exactOptional(),
  attributes: z.record(z.string(), z.string()).exactOptional(),
});

const runBody = z.object({
  phone: z.string(),
  name: z.string().min(1).max(200).optional(),
  data: z.record(z.string(), z.string()).default({}),
});

const latest = 100;

export function addApiRoutes(
  api: FastifyInstance,
  { world, messaging, automations, events }: Service,
): void {
  api.post("/messages", async (request, reply) => {
    const message = messaging.send(
      callerOf(request).id,
      checked(outgoingBodySchema, request.body),
      "api",
    );
    const receipt = receiptOf(message);
    await events.meta?.answerAfter(message);
    return reply.code(201).send(receipt);
  });
  api.get<{ Params: { id: string } }>("/messages/:id", (request, reply) => {
    const message = world.messages.of(callerOf(request).id, request.params.id.toLowerCase());
    if (message === undefined) throw refused(404, "No encontramos ese mensaje en tu cuenta.");
    const {
      errorCode,
      contactId,
      phone,
      phoneNumberId,
      text,
      templateId,
      campaignId,
      createdAt,
      statusAt,
    } = message;
    const more = { errorCode, contactId, phone, phoneNumberId, text, templateId, campaignId };
    return reply.send({
      ...receiptOf(message),
      ...more,
      createdAt: iso(createdAt),
      statusAt: iso(statusAt),
    });
  });

  api.get("/contacts", (request, reply) => {
    const { id } = callerOf(request);
    const { phone, limit, after } = checked(contactsQuery, request.query);
    if (phone !== undefined) {
      const contact = world.contacts.find(id, parsePhone(phone) ?? "");
      return reply.send({ data: contact === undefined ? [] : [contactView(contact)], next: null });
    }
    const contacts = world.contacts.list(id);
    const start = firstAfter(contacts, after);
    const data = contacts.slice(start, start + limit).map(contactView);
    // A full page has a `next` even when nothing follows.
    return reply.send({ data, next: data.length === limit ? data.at(-1)?.id : null });
  });
  api.post("/contacts", (request, reply) => {
    const { phone, ...facts } = checked(contactBody, request.body);
    const { contact, isNew } = messaging.contactFor(callerOf(request).id, phone, facts);
    return reply.code(isNew ? 201 : 200).send(contactView(contact));
  });

  api.get("/templates", (request, reply) =>
    reply.send({ data: approvedTemplates(world, callerOf(request).id).map(templateView) }),
  );
  api.get("/campaigns", (request, reply) => {
    const campaigns = world.campaigns.list(callerOf(request).id).slice(-latest).reverse();
    return reply.send({
      data: campaigns.map(({ account: _, perSecond: __, createdAt, ...shown }) => ({
        ...shown,
        createdAt: iso(createdAt),
      })),
    });
  });
  api.get("/me", (request, reply) => {
    const { id, plan, contactLimit, isConnected, numbers, createdAt } = callerOf(request);
    const contacts = { used: world.contacts.list(id).length, limit: contactLimit };
    return reply.send({
      name: id,
      plan,
      isConnected,
      numbers,
      contacts,
      createdAt: iso(createdAt),
    });
  });

  api.post<{ Params: { id: string } }>("/automations/:id/runs", (request, reply) => {
    const order = checked(runBody, request.body);
    const automation = world.automations.of(callerOf(request).id, request.params.id.toLowerCase());
    if (automation === undefined) throw refused(404, "No existe esa automatización en tu cuenta.");
    if (automation.trigger !== "manual")
      throw refused(409, "La automatización no tiene el disparador de inicio manual.");
    return reply.code(201).send({ runId: automations.start(automation, order).id });
  });
}

function contactView({ id, phone, name, attributes, conversationId, createdAt }: ContactRecord) {
  return { id, phone, name, attributes, conversationId, createdAt: iso(createdAt) };
}

const hooksRoot = "/hooks/automations";

export function hookPath({ hookId }: AutomationRecord): string {
  return `${hooksRoot}/${hookId}`;
}

const hookBody = z.looseObject(runBody.pick({ phone: true, name: true }).shape);

/**
 * Incoming webhooks of automations (messaging-service-api.md). The path is the secret; calls count
 * as API calls of the account.
 */
export function addHookRoutes(app: FastifyInstance, { world, limits, automations }: Service): void {
  const behind = (request: FastifyRequest) => {
    const automation = world.automations.findAnywhere(
      (request.params as { hookId: string }).hookId,
    );
    if (automation?.trigger === "incoming-webhook") return automation;
    throw refused(404, "No existe ese webhook.");
  };
  app.post(`${hooksRoot}/:hookId`, {
    // Before the body is read, so that a call is counted whatever it brings.
    async onRequest(request) {
      limits.admit(accountOf(world, behind(request).account), "other");
    },
    handler(request, reply) {
      const { phone, name, ...rest } = checked(hookBody, request.body);
      const texts = Object.entries(rest).map(([key, value]) => [
        key,
        typeof value === "string" ? value : JSON.stringify(value),
      ]);
      const run = automations.start(behind(request), {
        phone,
        name,
        data: Object.fromEntries(texts),
      });
      return reply.code(201).send({ runId: run.id });
    },
  });
}
