import { z } from "zod";
import type { Clock } from "../model/clock.ts";
import type { Wamid } from "../model/ids.ts";
import { digitsOf, type Random } from "./ids.ts";
import { type SigningSettings, signingSchema } from "./signing.ts";
import type { MessageStatus } from "./statuses.ts";
import { createTable, type Journal, type Stored } from "./table.ts";

const mostEvents = 200_000;
/** Of about 1 KB each (`bench/sandbox.ts`). */
export const usualMessages = 500_000;

export type World = ReturnType<typeof createWorld>;

export function createWorld(
  journal: Journal,
  { keepMessages = usualMessages }: { readonly keepMessages?: number } = {},
) {
  return {
    accounts: createTable<AccountRecord>("account", journal),
    keys: createTable<KeyRecord>("key", journal, { keyOf: ({ key }) => key }),
    webhooks: createTable<WebhookRecord>("webhook", journal),
    apps: createTable<AppRecord>("app", journal, { keyOf: ({ token }) => token }),
    contacts: createTable<ContactRecord>("contact", journal, { keyOf: ({ phone }) => phone }),
    templates: createTable<TemplateRecord>("template", journal),
    messages: createTable<MessageRecord>("message", journal, {
      keyOf: ({ wamid }) => wamid,
      most: keepMessages,
      isOver: ({ future }) => future.length === 0,
    }),
    campaigns: createTable<CampaignRecord>("campaign", journal),
    recipients: createTable<RecipientsRecord>("recipients", journal),
    automations: createTable<AutomationRecord>("automation", journal, {
      keyOf: ({ hookId }) => hookId,
    }),
    runs: createTable<RunRecord>("run", journal),
    events: createTable<EventRecord>("event", journal, { most: mostEvents }),
    deliveries: createTable<DeliveryRecord>("delivery", journal, { most: mostEvents }),
  };
}

export interface Core {
  readonly world: World;
  readonly clock: Clock;
  /** The machine's: receivers live in its time. */
  readonly baseClock: Clock;
  readonly ids: () => string;
  /** What a new record of an account begins with. */
  readonly owned: (account: string) => Owned;
  readonly random: Random;
  readonly speed: number;
}

export const mainAccount = "main";

export function wabaIdOf(account: string): string {
  return account === mainAccount ? "102290129340398" : digitsOf(`waba/${account}`, 15);
}

/**
 * Plain JSON, for the state file. Times are unix milliseconds of the sandbox's clock. `put` records
 * changed in place.
 */
export interface Owned extends Stored {
  readonly createdAt: number;
}

export const quotas = [
  "apiCalls",
  "webhookDeliveries",
  "automationSteps",
  "automationRequests",
] as const;
export type Quota = (typeof quotas)[number];

export interface Usage extends Record<Quota, number> {
  month: string;
}

export const accountOf = (world: World, name: string): AccountRecord =>
  world.accounts.get(name) as AccountRecord;

export interface SendingNumber {
  readonly phoneNumberId: string;
  readonly phone: string;
  isConnected: boolean;
}

/** `id` and `account` are both its name. */
export interface AccountRecord extends Owned {
  plan: Plan;
  contactLimit: number | null;
  isConnected: boolean;
  numbers: SendingNumber[];
  usage: Usage;
}

export interface KeyRecord extends Owned {
  readonly key: string;
  readonly label: string;
  revokedAt: number | null;
}

export interface WebhookRecord extends Owned {
  url: string;
  events: string[];
  secret: string;
  signature: SigningSettings;
  isEnabled: boolean;
  meta?: { readonly verifyToken: string; isVerified: boolean } | undefined;
}

export interface AppRecord extends Owned {
  readonly name: string;
  readonly token: string;
}

export interface ContactRecord extends Owned {
  readonly phone: string;
  name: string | null;
  attributes: Record<string, string>;
  readonly conversationId: string;
  customerWroteAt: number | null;
  humanRepliedAt: number | null;
  runId: string | null;
  /** The last one that they have not replied to. */
  campaignId: string | null;
}

const templateVariable = z
  .strictObject({
    name: z.string().min(1).max(100),
    label: z.string().max(200).exactOptional(),
    example: z.string().max(1024),
    fallback: z.string().max(1024).exactOptional(),
  })
  .transform(({ label, ...variable }) => ({ ...variable, label: label ?? variable.name }));
export type TemplateVariable = z.output<typeof templateVariable>;

export const templateOrder = z.strictObject({
  name: z.string().min(1).max(200),
  body: z.string().min(1).max(4096),
  variables: z.array(templateVariable).default([]),
  language: z.string().min(2).max(10).default("es_AR"),
  category: z.string().min(1).max(50).default("UTILITY"),
  status: z.enum(["approved", "pending", "rejected"]).default("approved"),
});

export interface TemplateRecord extends Owned, z.output<typeof templateOrder> {
  readonly metaName: string;
  readonly wabaId: string;
}

export interface FutureStep {
  at: number;
  readonly status: MessageStatus;
  readonly errorCode?: string | number | undefined;
}

export const messageOrigins = ["api", "chat", "campaign", "automation", "customer"] as const;
export type MessageOrigin = (typeof messageOrigins)[number];

export interface MessageRecord extends Owned {
  readonly wamid: Wamid;
  readonly origin: MessageOrigin;
  readonly contactId: string;
  readonly conversationId: string;
  readonly phone: string;
  readonly phoneNumberId: string;
  readonly text: string;
  readonly templateId: string | null;
  readonly campaignId: string | null;
  readonly reference?: string | undefined;
  status: MessageStatus;
  errorCode?: string | number | undefined;
  statusAt: number;
  deliveredAt?: number;
  readAt?: number;
  future: FutureStep[];
}

export interface CampaignRecord extends Owned {
  readonly name: string;
  readonly templateId: string;
  readonly total: number;
  readonly perSecond: number;
  sent: number;
  deliveries: number;
  reads: number;
  replies: number;
  failed: number;
}

/** Until the campaign ends. Apart from it, as it changes with every message. */
export interface RecipientsRecord extends Owned {
  readonly phones: readonly string[];
}

const step = z.union(
  [
    z.strictObject({ type: z.literal("send"), text: z.string().min(1).max(4096) }),
    z.strictObject({
      type: z.literal("send"),
      templateId: z.string(),
      variables: z.record(z.string(), z.string()).optional(),
    }),
    z.strictObject({ type: z.literal("wait"), ms: z.number().int().min(0) }),
    z.strictObject({
      type: z.literal("request"),
      url: z.url({ protocol: /^https?$/ }),
      body: z.unknown(),
      get onSuccess() {
        return z.array(step).optional();
      },
      get onError() {
        return z.array(step).optional();
      },
    }),
    z.strictObject({ type: z.literal("fail"), error: z.string() }),
  ],
  {
    error:
      "is no step: {type: send, text | templateId, variables?}, {type: wait, ms}, {type: request, url, body, onSuccess?, onError?} or {type: fail, error}",
  },
);
export type AutomationStep = z.output<typeof step>;

export const automationOrder = z.strictObject({
  name: z.string().min(1).max(200),
  trigger: z.enum(["manual", "incoming-webhook", "customer-message"]).default("manual"),
  status: z.enum(["draft", "published", "paused"]).default("published"),
  steps: z.array(step).max(1_000).default([]),
  signature: signingSchema.optional(),
});

export interface AutomationRecord
  extends Owned,
    Omit<z.output<typeof automationOrder>, "signature"> {
  token: string;
  readonly hookId: string;
  signature: SigningSettings;
}

export interface RunRecord extends Owned {
  readonly automationId: string;
  readonly contactId: string;
  readonly data: Record<string, string>;
  status: "running" | "completed" | "failed";
  error: string | null;
  left: AutomationStep[];
  nextAt: number;
  /** While the run waits to see whether this message leaves. */
  messageId: string | null;
}

export interface EventRecord extends Owned {
  readonly event: string;
  readonly wamid: string | null;
  readonly runId: string | null;
  /** That it reports; for several updates of Meta, their number. */
  readonly status: string | null;
  readonly body: string;
}

export interface DeliveryRecord extends Owned {
  readonly eventId: string;
  readonly webhookId: string;
  /** `dropped`: never sent (quota or fault); `failed`: given up after the last try. */
  status: "waiting" | "delivered" | "failed" | "dropped";
  reason: string | null;
  tries: number;
  answered: number | null;
  nextAt: number;
}

export const planNames = ["trial", "growth", "escala", "enterprise"] as const;
export type Plan = (typeof planNames)[number];

const unlimited = Number.POSITIVE_INFINITY;
/** As the document's tables have them: a column for each plan. */
const planLimits = {
  requests: [0, 0, 300, 1_200],
  messages: [0, 0, 60, 300],
  apiCalls: [0, 0, 300_000, unlimited],
  webhookDeliveries: [0, 0, 500_000, unlimited],
  automationSteps: [2_000, 25_000, 200_000, unlimited],
  automationRequests: [200, 5_000, 50_000, unlimited],
  keys: [0, 0, 10, 50],
  urls: [0, 0, 5, 25],
  apps: [3, 10, 25, unlimited],
  toolCalls: [20, 30, 60, 120],
} as const;

const column = (at: 0 | 1 | 2 | 3) =>
  Object.fromEntries(
    Object.entries(planLimits).map(([name, columns]) => [name, columns[at]]),
  ) as Record<keyof typeof planLimits, number>;

export const plans = {
  trial: column(0),
  growth: column(1),
  escala: column(2),
  enterprise: column(3),
};

export const hasApi = ({ plan }: AccountRecord): boolean => plans[plan].requests > 0;

export const suggestedPlan = {
  trial: "escala",
  growth: "escala",
  escala: "enterprise",
  enterprise: null,
} as const;
