import type { z } from "zod";
import type { AccountSetup } from "./control/account-setup.ts";
import type { webhookOptionsSchema } from "./options.ts";
import type { AccountRecord, Plan, TemplateRecord } from "./world/records.ts";
import type { World } from "./world/world.ts";
import { mainAccount } from "./world/world.ts";

/** What a new sandbox has: an account with a key and a connected number, three approved templates, two automations. */
export function seedWorld(parts: {
  readonly setup: AccountSetup;
  readonly plan: Plan;
  readonly key: string | undefined;
  readonly phoneNumberIds: readonly string[];
}): AccountRecord {
  const { setup, plan, key, phoneNumberIds } = parts;
  const account = setup.addAccount(mainAccount, plan, null, phoneNumberIds[0]);
  setup.giveKey(account, "first", key);
  const [welcome] = templates.map((order) => setup.addTemplate(account, { ...usual, ...order })) as [TemplateRecord, ...TemplateRecord[]];
  const published = { status: "published" } as const;
  setup.addAutomation(account, {
    ...published,
    name: "Bienvenida",
    trigger: "manual",
    steps: [{ type: "send", templateId: welcome.id }],
  });
  setup.addAutomation(account, {
    ...published,
    name: "Pedido recibido",
    trigger: "incoming-webhook",
    steps: [{ type: "send", templateId: welcome.id }],
  });
  return account;
}

/** What the options ask of `main`, at the first start and at any later one: added where it is not there yet. */
export function setUpAgain(parts: {
  readonly world: World;
  readonly setup: AccountSetup;
  readonly plan: Plan | undefined;
  readonly key: string | undefined;
  readonly webhooks: readonly z.output<typeof webhookOptionsSchema>[];
  readonly phoneNumberIds: readonly string[];
  /** The sandbox's own secret, and the one that it takes the place of. */
  readonly secret: string;
  readonly formerSecret: string;
}): void {
  const { world, setup, plan, key, webhooks, phoneNumberIds, secret, formerSecret } = parts;
  const account = world.accounts.get(mainAccount) as AccountRecord;
  if (plan !== undefined && plan !== account.plan) {
    account.plan = plan;
    world.accounts.put(account);
  }
  const known = key === undefined ? undefined : world.keys.find(mainAccount, key);
  if (known !== undefined && known.revokedAt !== null) {
    known.revokedAt = null;
    world.keys.put(known);
  } else if (key !== undefined && known === undefined) setup.giveKey(account, "given", key);
  for (const id of phoneNumberIds) {
    if (!account.numbers.some(({ phoneNumberId }) => phoneNumberId === id)) setup.addNumber(account, id);
  }
  for (const webhook of world.webhooks.all()) {
    if (webhook.secret !== formerSecret || secret === formerSecret) continue;
    webhook.secret = secret;
    world.webhooks.put(webhook);
  }
  for (const webhook of webhooks) {
    if (!world.webhooks.list(mainAccount).some(({ url }) => url === webhook.url)) setup.addWebhook(account, webhook);
  }
}

const usual = { language: "es_AR", category: "UTILITY", status: "approved", variables: [] } as const;

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
