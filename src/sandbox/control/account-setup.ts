import { randomBytes } from "node:crypto";
import type { z } from "zod";
import { planRefused } from "../api/fault.ts";
import { noUsage } from "../limits/limits.ts";
import type { WebhookOptions } from "../options.ts";
import {
  type AccountRecord,
  type AppRecord,
  type AutomationRecord,
  type automationOrder,
  type KeyRecord,
  type Plan,
  plans,
  type SendingNumber,
  type TemplateRecord,
  type templateOrder,
  type WebhookRecord,
} from "../world/records.ts";
import { type World, wabaIdOf } from "../world/world.ts";

/** What a person sets up in the service's settings. Throws 402 beyond the plan's maximums. */
export type AccountSetup = ReturnType<typeof createAccountSetup>;

/** `service` names the signature's header and begins keys; `secret` signs where none is given. */
export function createAccountSetup(parts: {
  readonly world: World;
  readonly now: () => number;
  readonly ids: () => string;
  readonly service: string;
  readonly secret: string;
  /** Null: the format is not `meta`. */
  readonly verifyToken: string | null;
}) {
  const { world, now, ids, service, secret, verifyToken } = parts;
  const owned = (account: string) => ({ id: ids(), account, createdAt: now() });

  return {
    addAccount(name: string, plan: Plan, contactLimit: number | null, phoneNumberId?: string): AccountRecord {
      const account: AccountRecord = {
        id: name,
        account: name,
        createdAt: now(),
        plan,
        contactLimit,
        isConnected: true,
        numbers: [],
        usage: noUsage,
      };
      this.addNumber(account, phoneNumberId);
      return account;
    },
    addNumber(account: AccountRecord, phoneNumberId = digits(15)): SendingNumber {
      const number = { phoneNumberId, phone: `+5411${digits(8)}`, isConnected: true };
      account.numbers.push(number);
      world.accounts.put(account);
      return number;
    },
    /** A revoked key does not count ("Authentication", 3). */
    addKey(account: AccountRecord, label: string): KeyRecord {
      const valid = world.keys.list(account.id).filter(({ revokedAt }) => revokedAt === null).length;
      mustFit(account, "apiKeys", valid, plans[account.plan].keys, "claves de API");
      return this.giveKey(account, label);
    },
    /** Past the maximum, so that a plan without the API has a key to be refused with. */
    giveKey(account: AccountRecord, label: string, key = newKey(service)): KeyRecord {
      const record = { ...owned(account.id), key, label, revokedAt: null };
      world.keys.put(record);
      return record;
    },
    addWebhook(account: AccountRecord, order: WebhookOptions): WebhookRecord {
      mustFit(account, "webhookUrls", world.webhooks.list(account.id).length, plans[account.plan].urls, "URLs de webhook");
      const record: WebhookRecord = {
        ...owned(account.id),
        url: order.url,
        events: [...order.events],
        secret: order.secret ?? secret,
        signature: order.signature ?? (verifyToken === null ? { service } : { preset: "meta" }),
        isEnabled: true,
        ...(verifyToken === null ? {} : { meta: { verifyToken: order.verifyToken ?? verifyToken, isVerified: false } }),
      };
      world.webhooks.put(record);
      return record;
    },
    addApp(account: AccountRecord, name: string): AppRecord {
      const used = world.apps.list(account.id).length;
      mustFit(account, "aiApps", used, plans[account.plan].apps, "apps de IA conectadas");
      const record = { ...owned(account.id), name, token: `mcp_${randomBytes(18).toString("hex")}` };
      world.apps.put(record);
      return record;
    },
    addTemplate(account: AccountRecord, order: z.output<typeof templateOrder>): TemplateRecord {
      const record = { ...owned(account.id), ...order, metaName: metaNameOf(order.name), wabaId: wabaIdOf(account.id) };
      world.templates.put(record);
      return record;
    },
    addAutomation(account: AccountRecord, { signature, ...order }: z.output<typeof automationOrder>): AutomationRecord {
      const record: AutomationRecord = {
        ...owned(account.id),
        ...order,
        token: `ats_${randomBytes(18).toString("hex")}`,
        hookId: randomBytes(12).toString("hex"),
        signature: signature ?? { service },
      };
      world.automations.put(record);
      return record;
    },
  };
}

/** The sandbox's choice of prefix ("Authentication", 2). */
function newKey(service: string): string {
  return `${service}_live_${randomBytes(20).toString("hex")}`;
}

export function newSecret(): string {
  return `whsec_${randomBytes(24).toString("base64")}`;
}

function digits(count: number): string {
  return Array.from({ length: count }, (_, place) => ((randomBytes(1)[0] as number) % (place === 0 ? 9 : 10)) + (place === 0 ? 1 : 0)).join(
    "",
  );
}

function mustFit(account: AccountRecord, resource: string, used: number, limit: number | null, what: string): void {
  if (limit === null || used < limit) return;
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
