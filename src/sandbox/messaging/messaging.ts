import { z } from "zod";
import { type ApiFault, planRefused, refused } from "../api/fault.ts";
import type { Publisher } from "../events/publisher.ts";
import { createWamids } from "../ids.ts";
import type { MessageStatus } from "../statuses.ts";
import {
  type AccountRecord,
  accountOf,
  type ContactRecord,
  type Core,
  type MessageOrigin,
  type MessageRecord,
  type TemplateRecord,
  type TemplateVariable,
  type World,
} from "../world.ts";
import {
  createLives,
  noSuchNumber,
  outcomeFor,
  planLife,
  requirePhone,
  sendingNumber,
} from "./lives.ts";

const template = z.object({
  id: z.guid("Tiene que ser un UUID."),
  variables: z.record(z.string(), z.string()).optional(),
});

export const outgoingBodySchema = z
  .object({
    to: z.string().min(6).max(32),
    phoneNumberId: z.string().optional(),
    text: z.string().min(1).max(4096).optional(),
    template: template.optional(),
  })
  .refine(({ text, template }) => (text === undefined) !== (template === undefined), {
    error: "Mandá exactamente uno de text y template.",
    path: ["text"],
  });

export interface OutgoingMessage extends z.output<typeof outgoingBodySchema> {
  readonly campaignId?: string;
  readonly reference?: string | undefined;
  /**
   * As Meta does it: text outside the 24-hour window is accepted, and fails with 131047 afterwards.
   */
  readonly failsLater?: boolean;
}

export interface IncomingMessage {
  readonly phone: string;
  readonly name?: string | undefined;
  readonly text: string;
  readonly phoneNumberId?: string;
}

export interface ContactFacts {
  readonly name?: string | null | undefined;
  readonly attributes?: Readonly<Record<string, string>>;
}

type MessageFacts = Pick<
  MessageRecord,
  "text" | "templateId" | "origin" | "phoneNumberId" | "status" | "campaignId" | "reference"
>;

/** In digits (E.164): a wamid holds no more. */
const longestRealPhone = 15;
const unnamedFailure = 131000;
const windowClosedCode = 131047;
const windowMs = 24 * 60 * 60 * 1000;

export type Messaging = ReturnType<typeof createMessaging>;

export function createMessaging(core: Core, publisher: Publisher) {
  const { world, clock, ids, owned, random, speed } = core;
  const lives = createLives(core, publisher);
  const newWamid = createWamids(random.fork("wamids"));
  const lifeRandom = random.fork("lives");
  /** Not in the state file: after a restart each comes once more. */
  const rejectedBefore = new Set<string>();

  const createContact = (
    account: string,
    phone: string,
    { name = null, attributes }: ContactFacts = {},
  ): ContactRecord => {
    const states = { customerWroteAt: null, humanRepliedAt: null, runId: null, campaignId: null };
    return world.contacts.put({
      ...owned(account),
      phone,
      name,
      attributes: { ...attributes },
      conversationId: ids(),
      ...states,
    });
  };
  const record = (
    { id, account, phone, conversationId }: ContactRecord,
    about: MessageFacts,
  ): MessageRecord => {
    const wamid = newWamid(phone.slice(1, 1 + longestRealPhone));
    return {
      ...owned(account),
      wamid,
      contactId: id,
      conversationId,
      phone,
      statusAt: clock.now(),
      future: [],
      ...about,
    };
  };
  const send = (
    account: string,
    message: OutgoingMessage,
    origin: Exclude<MessageOrigin, "customer">,
  ): MessageRecord => {
    const phone = requirePhone(message.to);
    const { phoneNumberId } = sendingNumber(accountOf(world, account), message.phoneNumberId);
    const known = world.contacts.find(account, phone);
    const isLate = clock.now() - (known?.customerWroteAt ?? Number.NEGATIVE_INFINITY) > windowMs;
    const content = contentOf(world, account, message, known, isLate);
    if (known === undefined) admitContact(world, accountOf(world, account));
    checkProvider(rejectedBefore, account, phone);
    const life = planLife(phone, { now: clock.now(), random: lifeRandom, speed });
    const willFail = content.templateId === null && isLate;
    // From here on nothing refuses it: what was refused created nothing.
    const contact = known ?? createContact(account, phone);
    const { campaignId = null, reference } = message;
    const sent = record(contact, {
      ...content,
      origin,
      phoneNumberId,
      status: "pending",
      campaignId,
      reference,
    });
    sent.future = willFail
      ? life.slice(0, 1).map(({ at }) => ({ at, status: "failed", errorCode: windowClosedCode }))
      : life;
    world.messages.put(sent);
    if (campaignId !== null) world.contacts.update(contact, { campaignId });
    lives.follow(sent);
    return sent;
  };
  return {
    send,
    receive(
      account: string,
      { phone: given, name, text, phoneNumberId: wanted }: IncomingMessage,
    ): MessageRecord {
      const phone = requirePhone(given);
      const { numbers } = accountOf(world, account);
      if (wanted !== undefined && !numbers.some((number) => number.phoneNumberId === wanted))
        throw noSuchNumber();
      const from = world.contacts.find(account, phone) ?? createContact(account, phone);
      const campaign = world.campaigns.get(from.campaignId ?? "");
      if (campaign !== undefined)
        world.campaigns.update(campaign, { replies: campaign.replies + 1 });
      world.contacts.update(from, {
        name: from.name ?? name ?? null,
        customerWroteAt: clock.now(),
        campaignId: null,
      });
      const phoneNumberId =
        wanted ??
        (numbers.find(({ isConnected }) => isConnected) ?? numbers[0])?.phoneNumberId ??
        "";
      const about = {
        text,
        templateId: null,
        campaignId: null,
        origin: "customer",
        phoneNumberId,
        status: "received",
      } as const;
      return world.messages.put(record(from, about));
    },
    reply(contact: ContactRecord, text: string): MessageRecord {
      const sent = send(contact.account, { to: contact.phone, text }, "chat");
      world.contacts.update(contact, { humanRepliedAt: clock.now() });
      return sent;
    },
    setStatus(message: MessageRecord, status: MessageStatus, errorCode?: string | number): void {
      if ([message.status, status].includes("received"))
        throw refused(
          400,
          "Sólo los mensajes del cliente están en received, y ahí se quedan: no se les puede dar otro estado.",
        );
      lives.move(
        message,
        status,
        status === "failed" ? (errorCode ?? message.errorCode ?? unnamedFailure) : undefined,
      );
    },
    contactFor(account: string, text: string, facts: ContactFacts = {}) {
      const phone = requirePhone(text);
      const contact = world.contacts.find(account, phone);
      if (contact === undefined) {
        admitContact(world, accountOf(world, account));
        return { contact: createContact(account, phone, facts), isNew: true };
      }
      world.contacts.update(contact, {
        name: facts.name ?? contact.name,
        attributes: { ...contact.attributes, ...facts.attributes },
      });
      return { contact, isNew: false };
    },
    resume(): void {
      for (const message of world.messages.all()) lives.follow(message);
    },
  };
}

function contentOf(
  world: World,
  account: string,
  message: OutgoingMessage,
  to: ContactRecord | undefined,
  isLate: boolean,
) {
  const { text, template, failsLater } = message;
  if (template !== undefined) {
    const found = templateToSend(world, account, template.id);
    return { text: fillTemplate(found, template.variables ?? {}, to), templateId: found.id };
  }
  if (failsLater !== true && isLate)
    throw refused(
      409,
      "Pasaron más de 24 horas desde el último mensaje del cliente: para escribirle usá una plantilla.",
    );
  return { text: text as string, templateId: null };
}

export function receiptOf({ id, wamid, status, conversationId }: MessageRecord) {
  return { id, wamid, status, conversationId };
}

function checkProvider(rejectedBefore: Set<string>, account: string, phone: string): void {
  const { rejection } = outcomeFor(phone);
  const key = `${account}\0${phone}`;
  if (rejection === undefined || (rejection.isTemporary && rejectedBefore.has(key))) return;
  rejectedBefore.add(key);
  throw refused(502, `El proveedor rechazó el mensaje: ${rejection.reason}`);
}

function admitContact(world: World, { id, plan, contactLimit: limit }: AccountRecord): void {
  const used = world.contacts.list(id).length;
  if (limit !== null && used >= limit)
    throw planRefused(402, `Llegaste al límite de ${limit} contactos de tu plan.`, {
      plan,
      resource: "contacts",
      limit,
      used,
    });
}

export function approvedTemplates(world: World, account: string): TemplateRecord[] {
  return world.templates
    .list(account)
    .filter(({ status }) => status === "approved")
    .reverse();
}

export function templateView({
  id,
  name,
  metaName,
  language,
  category,
  wabaId,
  variables,
}: TemplateRecord) {
  return {
    id,
    name,
    metaName,
    language,
    category,
    wabaId,
    variables: variables.map(({ name, label }) => ({ name, label })),
  };
}

export const templateGone = (): ApiFault => refused(404, "La plantilla ya no existe.");

export function templateToSend(world: World, account: string, id: string): TemplateRecord {
  const template = world.templates.of(account, id.toLowerCase());
  if (template === undefined) throw templateGone();
  if (template.status !== "approved")
    throw refused(409, "La plantilla todavía no fue aprobada por el proveedor.");
  return template;
}

type Values = Readonly<Record<string, string>>;
type Facts = Pick<ContactRecord, "name" | "attributes"> | undefined;

export function fillTemplate(template: TemplateRecord, sent: Values, contact: Facts): string {
  const declared = new Map(template.variables.map((variable) => [variable.name, variable]));
  return fillPlaces(template.body, (name) => {
    const variable = declared.get(name);
    return variable && fillerOf(variable, sent, contact);
  });
}

/**
 * Fills each `{{name}}`. Blanks are trimmed afterwards: `\s*` in the pattern would take cubic time
 * on many of them.
 */
export function fillPlaces(text: string, filler: (name: string) => string | undefined): string {
  return text.replace(
    /\{\{([^{}]+)\}\}/g,
    (place, padded: string) => filler(padded.trim()) ?? place,
  );
}

function fillerOf(
  { name, fallback, example }: TemplateVariable,
  sent: Values,
  contact: Facts,
): string {
  const datum = name === "nombre" ? contact?.name : own(contact?.attributes ?? {}, name);
  return own(sent, name) ?? (datum || undefined) ?? fallback ?? example;
}

/** A variable may be called `constructor`. */
export function own(values: Values, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}
