import type { z } from "zod";
import type { AccountSetup } from "./control/account-setup.ts";
import type { Memory } from "./memory.ts";
import type { sandboxOptionsSchema } from "./options.ts";
import { type AccountRecord, templateOrder } from "./world/records.ts";
import { mainAccount } from "./world/world.ts";

type Settings = z.output<typeof sandboxOptionsSchema>;

/** At every start: adds what the options ask of `main` and is not there yet. */
export function seedWorld({ world, secret, formerSecret }: Memory, setup: AccountSetup, settings: Settings): void {
  const { plan, key, webhooks, phoneNumberIds } = settings;
  const account = world.accounts.get(mainAccount) ?? newMain(setup, settings);
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
