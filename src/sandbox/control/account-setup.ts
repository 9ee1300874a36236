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
  type automationOrder,
  type Core,
  mainAccount,
  type Plan,
  plans,
  templateOrder,
  wabaIdOf,
} from "../world.ts";

export type AccountSetup = ReturnType<typeof createAccountSetup>;

/** `service` names the signature's header and begins keys; `secret` signs where none is given. */
export function createAccountSetup(
  { world, clock, owned }: Core,
  {
    service,
    secret,
    verifyToken,
  }: { readonly service: string; readonly secret: string; readonly verifyToken: string | null },
) {
  return {
    addAccount(
      name: string,
      plan: Plan,
      contactLimit: number | null,
      phoneNumberId?: string,
    ): AccountRecord {
      const own = { id: name, account: name, createdAt: clock.now() };
      const account = {
        ...own,
        plan,
        contactLimit,
        isConnected: true,
        numbers: [],
        usage: noUsage,
      };
      this.addNumber(account, phoneNumberId);
      return account;
    },
    addNumber(account: AccountRecord, phoneNumberId = digits(15)) {
      const number = { phoneNumberId, phone: `+5411${digits(8)}`, isConnected: true };
      account.numbers.push(number);
      world.accounts.put(account);
      return number;
    },
    addKey(account: AccountRecord, label: string) {
      mustFit(
        account,
        "keys",
        world.keys.list(account.id).filter(({ revokedAt }) => revokedAt === null).length,
      );
      return this.giveKey(account, label);
    },
    /** Past the maximum, so that a plan without the API has a key to be refused with. */
    giveKey(
      { id }: AccountRecord,
      label: string,
      key = `${service}_live_${randomBytes(20).toString("hex")}`,
    ) {
      return world.keys.put({ ...owned(id), key, label, revokedAt: null });
    },
    addWebhook(account: AccountRecord, { url, events, ...order }: WebhookOptions) {
      mustFit(account, "urls", world.webhooks.list(account.id).length);
      const signature =
        order.signature ?? (verifyToken === null ? { service } : { preset: "meta" as const });
      const meta =
        verifyToken === null
          ? undefined
          : { verifyToken: order.verifyToken ?? verifyToken, isVerified: false };
      const own = keyFor(signature, order.secret ?? secret);
      return world.webhooks.put({
        ...owned(account.id),
        url,
        events,
        secret: own,
        signature,
        isEnabled: true,
        meta,
      });
    },
    addApp(account: AccountRecord, name: string) {
      mustFit(account, "apps", world.apps.list(account.id).length);
      return world.apps.put({
        ...owned(account.id),
        name,
        token: `mcp_${randomBytes(18).toString("hex")}`,
      });
    },
    addTemplate({ id }: AccountRecord, order: z.output<typeof templateOrder>) {
      return world.templates.put({
        ...owned(id),
        ...order,
        metaName: metaNameOf(order.name),
        wabaId: wabaIdOf(id),
      });
    },
    addAutomation(
      { id }: AccountRecord,
      { signature = { service }, ...order }: z.output<typeof automationOrder>,
    ) {
      const token = keyFor(signature, `ats_${randomBytes(18).toString("hex")}`);
      return world.automations.put({
        ...owned(id),
        ...order,
        token,
        hookId: randomBytes(12).toString("hex"),
        signature,
      });
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

/** As plan errors and their texts name them. */
const capped = {
  keys: ["apiKeys", "claves de API"],
  urls: ["webhookUrls", "URLs de webhook"],
  apps: ["aiApps", "apps de IA conectadas"],
} as const;

function mustFit({ plan }: AccountRecord, what: keyof typeof capped, used: number): void {
  const [resource, words] = capped[what];
  const limit = plans[plan][what];
  if (used < limit) return;
  if (limit === 0)
    throw planRefused(402, `Tu plan no incluye ${words}.`, { reason: "feature", plan, resource });
  throw planRefused(402, `Tu plan permite hasta ${limit} ${words}.`, {
    plan,
    resource,
    limit,
    used,
  });
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
export function seedWorld(
  { world, secret, formerSecret }: Memory,
  setup: AccountSetup,
  settings: Settings,
): void {
  const { plan, key, webhooks, phoneNumberIds } = settings;
  const account = world.accounts.get(mainAccount) ?? newMain(setup, settings);
  if (plan !== undefined) world.accounts.update(account, { plan });
  const known = key === undefined ? undefined : world.keys.find(mainAccount, key);
  if (known !== undefined) world.keys.update(known, { revokedAt: null });
  else if (key !== undefined) setup.giveKey(account, "given", key);
  for (const id of phoneNumberIds) {
    if (!account.numbers.some(({ phoneNumberId }) => phoneNumberId === id))
      setup.addNumber(account, id);
  }
  for (const webhook of world.webhooks.all()) {
    if (webhook.secret === formerSecret)
      world.webhooks.update(webhook, { secret: keyFor(webhook.signature, secret) });
  }
  for (const webhook of webhooks) {
    if (!world.webhooks.list(mainAccount).some(({ url }) => url === webhook.url))
      setup.addWebhook(account, webhook);
  }
}

function newMain(
  setup: AccountSetup,
  { plan = "escala", key, phoneNumberIds }: Settings,
): AccountRecord {
  const account = setup.addAccount(mainAccount, plan, null, phoneNumberIds[0]);
  setup.giveKey(account, "first", key);
  const [welcome] = templates.map((order) =>
    setup.addTemplate(account, templateOrder.parse(order)),
  );
  const steps = [{ type: "send" as const, templateId: welcome?.id ?? "" }];
  setup.addAutomation(account, {
    status: "published",
    name: "Bienvenida",
    trigger: "manual",
    steps,
  });
  setup.addAutomation(account, {
    status: "published",
    name: "Pedido recibido",
    trigger: "incoming-webhook",
    steps,
  });
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
