import { randomBytes, randomUUID } from "node:crypto";
import type { z } from "zod";
import { ApiFault, planRefused } from "../api/fault.ts";
import { digitsOf } from "../ids.ts";
import { noUsage } from "../limits.ts";
import type { Memory } from "../memory.ts";
import type { sandboxOptionsSchema, WebhookOptions } from "../options.ts";
import { createSigner, type SigningSettings } from "../signing.ts";
import {
  type AccountRecord,
  type AppRecord,
  type AutomationRecord,
  type automationOrder,
  type Core,
  type KeyRecord,
  mainAccount,
  type Plan,
  plans,
  type SendingNumber,
  type TemplateRecord,
  templateOrder,
  type WebhookRecord,
  wabaIdOf,
} from "../world.ts";

export type AccountSetup = ReturnType<typeof createAccountSetup>;

/** `service` names the signature's header and begins keys; `secret` signs where none is given. */
export function createAccountSetup(
  { world, clock, owned }: Core,
  { service, secret, verifyToken }: { readonly service: string; readonly secret: string; readonly verifyToken: string | null },
) {
  return {
    addAccount(name: string, plan: Plan, contactLimit: number | null, phoneNumberId?: string): AccountRecord {
      const own = { id: name, account: name, createdAt: clock.now() };
      const account = { ...own, plan, contactLimit, isConnected: true, numbers: [], usage: noUsage };
      this.addNumber(account, phoneNumberId);
      return account;
    },
    addNumber(account: AccountRecord, phoneNumberId = digits(15)): SendingNumber {
      const number = { phoneNumberId, phone: `+5411${digits(8)}`, isConnected: true };
      account.numbers.push(number);
      world.accounts.put(account);
      return number;
    },
    addKey(account: AccountRecord, label: string): KeyRecord {
      const valid = world.keys.list(account.id).filter(({ revokedAt }) => revokedAt === null).length;
      mustFit(account, "apiKeys", valid, plans[account.plan].keys, "claves de API");
      return this.giveKey(account, label);
    },
    /** Past the maximum, so that a plan without the API has a key to be refused with. The prefix is the sandbox's choice. */
    giveKey({ id }: AccountRecord, label: string, key = `${service}_live_${randomBytes(20).toString("hex")}`): KeyRecord {
      return world.keys.put({ ...owned(id), key, label, revokedAt: null });
    },
    addWebhook(account: AccountRecord, order: WebhookOptions): WebhookRecord {
      const { id, plan } = account;
      mustFit(account, "webhookUrls", world.webhooks.list(id).length, plans[plan].urls, "URLs de webhook");
      const signature = order.signature ?? (verifyToken === null ? { service } : { preset: "meta" });
      return world.webhooks.put({
        ...owned(id),
        url: order.url,
        events: order.events,
        secret: keyFor(signature, order.secret ?? secret),
        signature,
        isEnabled: true,
        ...(verifyToken !== null && { meta: { verifyToken: order.verifyToken ?? verifyToken, isVerified: false } }),
      });
    },
    addApp(account: AccountRecord, name: string): AppRecord {
      const { id, plan } = account;
      mustFit(account, "aiApps", world.apps.list(id).length, plans[plan].apps, "apps de IA conectadas");
      return world.apps.put({ ...owned(id), name, token: `mcp_${randomBytes(18).toString("hex")}` });
    },
    addTemplate({ id }: AccountRecord, order: z.output<typeof templateOrder>): TemplateRecord {
      return world.templates.put({ ...owned(id), ...order, metaName: metaNameOf(order.name), wabaId: wabaIdOf(id) });
    },
    addAutomation({ id }: AccountRecord, { signature = { service }, ...order }: z.output<typeof automationOrder>): AutomationRecord {
      const token = keyFor(signature, `ats_${randomBytes(18).toString("hex")}`);
      return world.automations.put({ ...owned(id), ...order, token, hookId: randomBytes(12).toString("hex"), signature });
    },
  };
}

/** The secret, once it has been seen to be in its encoding. */
export function keyFor(signature: SigningSettings, secret: string): string {
  try {
    createSigner(signature, secret);
    return secret;
  } catch (error) {
    throw new ApiFault(400, { error: (error as Error).message });
  }
}

const digits = (count: number): string => digitsOf(randomUUID(), count);

function mustFit(account: AccountRecord, resource: string, used: number, limit: number, what: string): void {
  if (used < limit) return;
  const { plan } = account;
  if (limit === 0) throw planRefused(402, `Tu plan no incluye ${what}.`, { reason: "feature", plan, resource });
  throw planRefused(402, `Tu plan permite hasta ${limit} ${what}.`, { plan, resource, limit, used });
}

function metaNameOf(name: string): string {
  const plain = name
    .normalize("NFD")
    .replace(/\p{Mn}/gu, "")
    .toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "") || "plantilla";
}

type Settings = z.output<typeof sandboxOptionsSchema>;

/** At every start: adds what the options ask of `main` and is not there yet. */
export function seedWorld({ world, secret, formerSecret }: Memory, setup: AccountSetup, settings: Settings): void {
  const { plan, key, webhooks, phoneNumberIds } = settings;
  const account = world.accounts.get(mainAccount) ?? newMain(setup, settings);
  if (plan !== undefined) world.accounts.update(account, { plan });
  const known = key === undefined ? undefined : world.keys.find(mainAccount, key);
  if (known !== undefined) world.keys.update(known, { revokedAt: null });
  else if (key !== undefined) setup.giveKey(account, "given", key);
  for (const id of phoneNumberIds) {
    if (!account.numbers.some(({ phoneNumberId }) => phoneNumberId === id)) setup.addNumber(account, id);
  }
  for (const webhook of world.webhooks.all()) {
    if (webhook.secret === formerSecret) world.webhooks.update(webhook, { secret: keyFor(webhook.signature, secret) });
  }
  for (const webhook of webhooks) {
    if (!world.webhooks.list(mainAccount).some(({ url }) => url === webhook.url)) setup.addWebhook(account, webhook);
  }
}

function newMain(setup: AccountSetup, { plan = "escala", key, phoneNumberIds }: Settings): AccountRecord {
  const account = setup.addAccount(mainAccount, plan, null, phoneNumberIds[0]);
  setup.giveKey(account, "first", key);
  const [welcome] = templates.map((order) => setup.addTemplate(account, templateOrder.parse(order)));
  const steps = [{ type: "send" as const, templateId: welcome?.id ?? "" }];
  setup.addAutomation(account, { status: "published", name: "Bienvenida", trigger: "manual", steps });
  setup.addAutomation(account, { status: "published", name: "Pedido recibido", trigger: "incoming-webhook", steps });
  return account;
}

const templates = [
  { name: "Bienvenida", body: "¡Hola! Gracias por escribirnos." },
  {
    name: "Saludo",
    body: "Hola {{nombre}}, ¿en qué te podemos ayudar?",
    variables: [{ name: "nombre", label: "Nombre", example: "Ana", fallback: "cliente" }],
  },
  {
    name: "Aviso de turno",
    body: "{{nombre}}, te esperamos el {{fecha}}.",
    variables: [
      { name: "nombre", label: "Nombre", example: "Ana", fallback: "Hola" },
      { name: "fecha", label: "Fecha del turno", example: "lunes 3 de noviembre" },
    ],
  },
];
