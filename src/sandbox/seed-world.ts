import type { AccountSetup } from "./control/account-setup.ts";
import type { WebhookOptions } from "./options.ts";
import type { AccountRecord, Plan } from "./world/records.ts";
import { mainAccount, type World } from "./world/world.ts";

interface SeedParts {
  readonly world: World;
  readonly setup: AccountSetup;
  readonly plan: Plan | undefined;
  readonly key: string | undefined;
  readonly webhooks: readonly WebhookOptions[];
  readonly phoneNumberIds: readonly string[];
  readonly secret: string;
  readonly formerSecret: string;
}

/** At every start: adds what the options ask of `main` and is not there yet. */
export function seedWorld(parts: SeedParts): void {
  const { world, setup, plan, key, webhooks, phoneNumberIds, secret, formerSecret } = parts;
  const account = world.accounts.get(mainAccount) ?? newMain(parts);
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

function newMain({ setup, plan = "escala", key, phoneNumberIds }: SeedParts): AccountRecord {
  const account = setup.addAccount(mainAccount, plan, null, phoneNumberIds[0]);
  setup.giveKey(account, "first", key);
  const [welcome] = templates.map((order) =>
    setup.addTemplate(account, { language: "es_AR", category: "UTILITY", status: "approved", ...order }),
  );
  const steps = [{ type: "send" as const, templateId: welcome?.id ?? "" }];
  setup.addAutomation(account, { status: "published", name: "Bienvenida", trigger: "manual", steps });
  setup.addAutomation(account, { status: "published", name: "Pedido recibido", trigger: "incoming-webhook", steps });
  return account;
}

const templates = [
  { name: "Bienvenida", body: "¡Hola! Gracias por escribirnos.", variables: [] },
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
