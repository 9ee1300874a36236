import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Automations } from "../automations/automations.ts";
import type { Limits } from "../limits/limits.ts";
import { contactPage } from "../messaging/contacts.ts";
import type { Messaging } from "../messaging/messaging.ts";
import { parsePhone } from "../messaging/numbers.ts";
import { messageNotFound, outgoingBodySchema } from "../messaging/refusals.ts";
import { approvedTemplates } from "../messaging/templates.ts";
import type { AccountRecord, AutomationRecord, CampaignRecord, ContactRecord, MessageRecord, TemplateRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { callerOf } from "./app.ts";
import { type ApiFault, checked, refused } from "./fault.ts";

interface MessageParts {
  readonly world: World;
  readonly messaging: Pick<Messaging, "send">;
  readonly answerAfter?: ((message: MessageRecord) => Promise<void>) | undefined;
}

export function addMessagesRoutes(app: FastifyInstance, { world, messaging, answerAfter }: MessageParts): void {
  app.post("/messages", async (request, reply) => {
    const { account } = callerOf(request);
    const message = messaging.send(account.id, checked(outgoingBodySchema, request.body), "api");
    const { id, wamid, status, conversationId } = message;
    await answerAfter?.(message);
    return reply.code(201).send({ id, wamid, status, conversationId });
  });
  app.get<{ Params: { id: string } }>("/messages/:id", (request, reply) => {
    const { account } = callerOf(request);
    // The sandbox's choice: an id that is no UUID gives 404 as well.
    const message = world.messages.of(account.id, request.params.id.toLowerCase());
    if (message === undefined) throw messageNotFound();
    return reply.send(messageView(message));
  });
}

/** The sandbox's choice, but for the first five fields. */
function messageView(message: MessageRecord): Record<string, unknown> {
  const { id, wamid, status, conversationId, errorCode, contactId, phone, phoneNumberId, text, templateId, campaignId } = message;
  return {
    id,
    wamid,
    status,
    conversationId,
    ...(errorCode === undefined ? {} : { errorCode }),
    contactId,
    phone,
    phoneNumberId,
    text,
    templateId,
    campaignId,
    createdAt: new Date(message.createdAt).toISOString(),
    statusAt: new Date(message.statusAt).toISOString(),
  };
}

/** The sandbox's choice: all fields. */
export function addMeRoutes(app: FastifyInstance, { world }: { readonly world: World }): void {
  app.get("/me", (request, reply) => {
    const { id, plan, contactLimit, isConnected, numbers, createdAt } = callerOf(request).account;
    return reply.send({
      name: id,
      plan,
      isConnected,
      numbers: numbers.map(({ phoneNumberId, phone, isConnected }) => ({ phoneNumberId, phone, isConnected })),
      contacts: { used: world.contacts.list(id).length, limit: contactLimit },
      createdAt: new Date(createdAt).toISOString(),
    });
  });
}

interface ContactParts {
  readonly world: World;
  readonly messaging: Pick<Messaging, "contactFor">;
}

const querySchema = z.object({
  limit: z
    .string("Tiene que venir una sola vez.")
    .regex(/^\d+$/, "Tiene que ser un número entero de 1 a 200.")
    .transform(Number)
    .pipe(z.number().min(1).max(200))
    .default(50),
  after: z.guid().toLowerCase().exactOptional(),
  phone: z.string().exactOptional(),
});

/** The sandbox's choice, but for `phone`. */
const bodySchema = z.object({
  phone: z.string(),
  name: z.string().exactOptional(),
  attributes: z.record(z.string(), z.string()).exactOptional(),
});

export function addContactsRoutes(app: FastifyInstance, { world, messaging }: ContactParts): void {
  app.get("/contacts", (request, reply) => {
    const { account } = callerOf(request);
    const { phone, ...place } = checked(querySchema, request.query);
    if (phone !== undefined) {
      // The sandbox's choice: the other parameters have no say then.
      const contact = world.contacts.find(account.id, parsePhone(phone) ?? "");
      return reply.send({ data: contact === undefined ? [] : [contactView(contact)], next: null });
    }
    const { data, next } = contactPage(world.contacts.list(account.id), place);
    return reply.send({ data: data.map(contactView), next });
  });
  app.post("/contacts", (request, reply) => {
    const { account } = callerOf(request);
    const { phone, ...facts } = checked(bodySchema, request.body);
    const { contactId, isNew } = messaging.contactFor(account.id, phone, facts);
    // The sandbox's choice: 200 for one that was there.
    return reply.code(isNew ? 201 : 200).send(contactView(world.contacts.get(contactId) as ContactRecord));
  });
}

function contactView({ id, phone, name, attributes, conversationId, createdAt }: ContactRecord): Record<string, unknown> {
  return { id, phone, name, attributes, conversationId, createdAt: new Date(createdAt).toISOString() };
}

export function addTemplatesRoutes(app: FastifyInstance, { world }: { readonly world: World }): void {
  app.get("/templates", (request, reply) => reply.send({ data: approvedTemplates(world, callerOf(request).account.id).map(templateView) }));
}

/** Exactly the fields of "Template (as listed)". */
function templateView({ id, name, metaName, language, category, wabaId, variables }: TemplateRecord): Record<string, unknown> {
  return { id, name, metaName, language, category, wabaId, variables: variables.map(({ name, label }) => ({ name, label })) };
}

/** "Not paginated; returns the latest 100". */
const latest = 100;

/** The sandbox's choice: newest first, and `data` around the list. */
export function addCampaignsRoutes(app: FastifyInstance, { world }: { readonly world: World }): void {
  app.get("/campaigns", (request, reply) => {
    const campaigns = world.campaigns.list(callerOf(request).account.id).slice(-latest).reverse();
    return reply.send({ data: campaigns.map(campaignView) });
  });
}

/** The document names deliveries, reads and replies only. */
function campaignView({ id, name, templateId, createdAt, total, sent, deliveries, reads, replies, failed }: CampaignRecord): unknown {
  return { id, name, templateId, createdAt: new Date(createdAt).toISOString(), total, sent, deliveries, reads, replies, failed };
}

/** The sandbox's choice: only `phone` is required. */
const runSchema = z.object({
  phone: z.string(),
  name: z.string().min(1).max(200).optional(),
  data: z.record(z.string(), z.string()).default({}),
});

export function addRunsRoutes(app: FastifyInstance, { world, automations }: { world: World; automations: Automations }): void {
  app.post<{ Params: { id: string } }>("/automations/:id/runs", (request, reply) => {
    const { account } = callerOf(request);
    const { phone, name, data } = checked(runSchema, request.body);
    const automation = world.automations.of(account.id, request.params.id.toLowerCase());
    if (automation === undefined) throw refused(404, "No existe esa automatización en tu cuenta.");
    // The sandbox's choice: 409, as for a paused one.
    if (automation.trigger !== "manual") throw refused(409, "La automatización no tiene el disparador de inicio manual.");
    const run = automations.start(account.id, automation, { phone, data, ...(name === undefined ? {} : { name }) });
    reply.code(201).send({ runId: run.id });
  });
}

const hooksRoot = "/hooks/automations";

/** The sandbox's choice: the document shows neither path nor payload. */
export function hookPath({ hookId }: Pick<AutomationRecord, "hookId">): string {
  return `${hooksRoot}/${hookId}`;
}

const hookBody = z.looseObject({ phone: z.string(), name: z.string().min(1).max(200).optional() });

interface HookParts {
  readonly world: World;
  readonly limits: Limits;
  readonly automations: Automations;
}

/** Incoming webhooks of automations (messaging-service-api.md). The path is the secret; calls count as API calls of the account. */
export function addHookRoutes(app: FastifyInstance, { world, limits, automations }: HookParts): void {
  const behind = (request: FastifyRequest): { account: AccountRecord; automation: AutomationRecord } => {
    const { hookId } = request.params as { hookId: string };
    for (const account of world.accounts.all()) {
      const automation = world.automations.find(account.id, hookId);
      if (automation?.trigger === "incoming-webhook") return { account, automation };
    }
    throw noSuchHook();
  };
  app.post(`${hooksRoot}/:hookId`, {
    // Before the body is read, so that a call is counted whatever it brings.
    onRequest(request, _reply, done) {
      limits.admit(behind(request).account, "other");
      done();
    },
    handler(request, reply) {
      const { account, automation } = behind(request);
      const { phone, name, ...rest } = checked(hookBody, request.body);
      const run = automations.start(account.id, automation, { phone, data: textsOf(rest), ...(name === undefined ? {} : { name }) });
      reply.code(201).send({ runId: run.id });
    },
  });
}

/** The sandbox's choice: every other field is a variable of the run. */
function textsOf(fields: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]));
}

function noSuchHook(): ApiFault {
  return refused(404, "No existe ese webhook.");
}
