import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { hookPath } from "../api/routes.ts";
import { campaignOrder } from "../campaigns.ts";
import { faultsSchema } from "../faults.ts";
import { parsePhone } from "../messaging/lives.ts";
import { eventKinds, webhookOptionsSchema, webhookUrl } from "../options.ts";
import { newSecret } from "../signing.ts";
import { messageStatuses } from "../statuses.ts";
import {
  type AccountRecord,
  type AutomationRecord,
  automationOrder,
  type ContactRecord,
  type MessageRecord,
  messageOrigins,
  planNames,
  plans,
  quotas,
  templateOrder,
  type WebhookRecord,
} from "../world.ts";
import { keyFor } from "./account-setup.ts";
import { type Call, type ControlParts, createRoutes, found, pageOf, pageQuery, type Routes, refusal, wholeNumber } from "./routes.ts";

export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  void app.register(async (scope) => {
    const routes = createRoutes(scope, parts.world);
    const stopping = Promise.withResolvers<void>();
    scope.addHook("preClose", async () => stopping.resolve());
    addWorldRoutes(routes, parts);
    addAccountRoutes(routes, parts);
    addPeopleRoutes(routes, parts);
    addFlowRoutes(routes, parts);
    addMessageRoutes(routes, parts, stopping.promise);
  });
  void app.register(
    async (scope) => {
      scope.setNotFoundHandler(({ method, url }, reply) => {
        const error = `there is no ${method} ${url.split("?")[0]}; docs/contributing/sandbox.md lists what there is`;
        return reply.code(404).send({ error });
      });
    },
    { prefix: "/sandbox" },
  );
}

const longestAdvanceMs = 100 * 366 * 24 * 3_600_000;
const clockOrder = z.strictObject({
  advanceMs: z.number().int().min(0).max(longestAdvanceMs).optional(),
  frozen: z.boolean().optional(),
});
const usageChange = z.partialRecord(z.enum(quotas), z.number().int().min(0));
const usageQuery = z.strictObject({ shown: z.enum(["0", "1"]).default("0") });
const plan = z.enum(planNames).exactOptional();
const contactLimit = z.number().int().min(0).nullable();
const newAccount = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "must be a name: letters, digits, . _ -, at most 64"),
  plan,
  contactLimit: contactLimit.default(null),
});
const accountChange = z.strictObject({ plan, contactLimit: contactLimit.exactOptional(), isConnected: z.boolean().exactOptional() });
const newNumber = z.strictObject({ phoneNumberId: z.string().min(1).max(64).optional() });
const numberChange = z.strictObject({ isConnected: z.boolean() });
const newKey = z.strictObject({ label: z.string().max(200).default("") });
const webhookChange = z.strictObject({
  url: webhookUrl.exactOptional(),
  events: eventKinds.exactOptional(),
  isEnabled: z.boolean().exactOptional(),
});
const rotation = z.strictObject({ secret: z.string().min(1).optional() });
const newApp = z.strictObject({ name: z.string().min(1).max(200) });

export function addWorldRoutes({ on }: Routes, { world, clock, faults, events, limits, url }: ControlParts): void {
  const time = () => ({ now: clock.now(), iso: new Date(clock.now()).toISOString(), frozen: clock.isFrozen });
  on("GET", "", () => ({
    url: url(),
    apiUrl: `${url()}/api/v1`,
    accounts: [...world.accounts.all()].map(({ id, plan: its }) => ({ name: id, plan: its })),
    clock: time(),
    faults: faults.current,
    counts: {
      ...Object.fromEntries(Object.entries(world).map(([name, { size }]) => [name, size])),
      deliveriesWaiting: events.waiting(),
    },
  }));
  on("GET", "/clock", time);
  on("POST", "/clock", ({ body }) => {
    const { advanceMs, frozen } = body(clockOrder);
    if (frozen === true) clock.freeze();
    if (frozen === false) clock.thaw();
    if (advanceMs !== undefined) clock.advance(advanceMs);
    return time();
  });
  on("GET", "/faults", () => faults.current);
  on("PUT", "/faults", ({ body }) => {
    faults.current = body(faultsSchema);
    return faults.current;
  });
  on("DELETE", "/faults", () => {
    faults.current = faultsSchema.parse({});
  });
  on("DELETE", "/blocks", () => limits.forgetBlocks());
}

export function addAccountRoutes(routes: Routes, { world, setup, clock, limits, events, callbacks, defaultPlan }: ControlParts): void {
  const { on, create, listed } = routes;
  on("GET", "/accounts", () => ({ data: [...world.accounts.all()].map(shownAccount) }));
  create("/accounts", ({ body }) => {
    const { name, plan: asked = defaultPlan, contactLimit: limit } = body(newAccount);
    if (world.accounts.get(name) !== undefined) throw refusal(409, `there is an account ${name} already`);
    const account = setup.addAccount(name, asked, limit);
    const { key } = setup.giveKey(account, "first");
    return { ...shownAccount(account), key, phoneNumberId: account.numbers[0]?.phoneNumberId };
  });
  on("PATCH", "/accounts/:name", ({ id, body }) => {
    const account = found(world.accounts.get(id), `account ${id}`);
    return shownAccount(world.accounts.update(account, body(accountChange)));
  });

  const usageOf = ({ id, plan: its }: AccountRecord, { month, ...used }: AccountRecord["usage"]) => ({
    month,
    ...Object.fromEntries(quotas.map((name) => [name, { used: used[name], limit: plans[its][name] }])),
    perMinute: limits.perMinute(id),
  });
  on("GET", "/usage", ({ account, query }) =>
    usageOf(account, query(usageQuery).shown === "1" ? limits.shownUsage(account) : limits.usage(account)),
  );
  on("PUT", "/usage", ({ account, body }) => {
    // Read first: it may begin a new month, which clears the old numbers.
    world.accounts.update(account, { usage: { ...limits.usage(account), ...body(usageChange) } });
    return usageOf(account, limits.usage(account));
  });

  on("GET", "/numbers", ({ account }) => ({ data: account.numbers }));
  create("/numbers", ({ account, body }) => {
    const { phoneNumberId } = body(newNumber);
    if (account.numbers.some((number) => number.phoneNumberId === phoneNumberId)) {
      throw refusal(409, `there is a number ${phoneNumberId} already`);
    }
    return setup.addNumber(account, phoneNumberId);
  });
  on("PATCH", "/numbers/:phoneNumberId", ({ account, id, body }) => {
    const number = found(
      account.numbers.find(({ phoneNumberId }) => phoneNumberId === id),
      `number ${id}`,
    );
    Object.assign(number, body(numberChange));
    world.accounts.put(account);
    return number;
  });

  const keyOf = listed("key", world.keys, ({ id, key, label, revokedAt }) => ({ id, key, label, isRevoked: revokedAt !== null }));
  create("/keys", ({ account, body }) => {
    const { id, key, label } = setup.addKey(account, body(newKey).label);
    return { id, key, label };
  });
  on("DELETE", "/keys/:id", (call) => {
    const key = keyOf(call);
    world.keys.update(key, { revokedAt: key.revokedAt ?? clock.now() });
  });

  const webhookOf = listed("webhook", world.webhooks);
  /** As Meta does it, a URL is not saved when its handshake fails. */
  const verified = async (webhook: WebhookRecord): Promise<void> => {
    const failure = (await callbacks?.verify(webhook))?.reason ?? null;
    if (failure !== null) throw refusal(400, `the handshake with ${webhook.url} failed: ${failure}`);
  };
  create("/webhooks", async ({ account, body }) => {
    const order = body(webhookOptionsSchema);
    // An app of Meta has one secret.
    const own = order.secret ?? (callbacks === null ? newSecret() : undefined);
    const webhook = setup.addWebhook(account, { ...order, secret: own });
    const { id, url, events, secret } = webhook;
    try {
      await verified(webhook);
    } catch (error) {
      world.webhooks.delete(id);
      throw error;
    }
    return { id, url, events, secret };
  });
  on("PATCH", "/webhooks/:id", async (call) => {
    const webhook = webhookOf(call);
    const change = call.body(webhookChange);
    if (change.url !== undefined) await verified({ ...webhook, url: change.url });
    world.webhooks.update(webhook, change);
    events.posting.webhookChanged(webhook.id);
    return webhook;
  });
  on("DELETE", "/webhooks/:id", (call) => {
    const { id } = webhookOf(call);
    world.webhooks.delete(id);
    events.posting.webhookChanged(id);
  });
  if (callbacks !== null) on("POST", "/webhooks/:id/verify", (call) => callbacks.verify(webhookOf(call)));
  on("POST", "/webhooks/:id/rotate", (call) => {
    const webhook = webhookOf(call);
    const secret = keyFor(webhook.signature, call.body(rotation).secret ?? newSecret());
    world.webhooks.update(webhook, { secret });
    return { secret };
  });

  const appOf = listed("app", world.apps);
  create("/apps", ({ account, body }) => {
    const { id, name, token } = setup.addApp(account, body(newApp).name);
    return { id, name, token };
  });
  on("DELETE", "/apps/:id", (call) => world.apps.delete(appOf(call).id));
}

function shownAccount({ id, plan: its, contactLimit: limit, isConnected, numbers }: AccountRecord) {
  return { name: id, plan: its, contactLimit: limit, isConnected, numbers };
}

const text = z.string().min(1).max(4096);
const customerWord = z.strictObject({ text, name: z.string().max(200).exactOptional(), phoneNumberId: z.string().exactOptional() });
const colleagueReply = z.strictObject({ phone: z.string(), text });
const contactFacts = z.strictObject({
  name: z.string().max(200).exactOptional(),
  attributes: z.record(z.string(), z.string()).exactOptional(),
});
const templateChange = z.strictObject({ status: templateOrder.shape.status.unwrap() });
const messagesQuery = pageQuery.extend({ status: z.enum(messageStatuses).optional(), origin: z.enum(messageOrigins).optional() });
const statusOrder = z.strictObject({
  status: z.enum(messageStatuses),
  errorCode: z.union([z.string(), z.number()]).optional(),
});
const eventsQuery = pageQuery.extend({ event: z.string().optional(), wamid: z.string().optional() });
const newEvent = z.strictObject({ event: z.string().min(1).max(256), data: z.record(z.string(), z.unknown()).default({}) });
const waitQuery = z.strictObject({ forMs: wholeNumber(600_000).default(0) });

const { status: automationStatus, steps } = automationOrder.shape;
const automationChange = z.strictObject({ status: automationStatus.unwrap().exactOptional(), steps: steps.unwrap().exactOptional() });

export function addPeopleRoutes({ on, create }: Routes, { world, messaging, customerWrites }: ControlParts): void {
  // Two words for one thing: a customer's message is the reply to the last campaign message.
  for (const word of ["messages", "replies"]) {
    create(`/customers/:phone/${word}`, ({ account, id, body }) => customerWrites(account.id, { phone: id, ...body(customerWord) }));
  }
  const contactWith = (account: string, phone: string): ContactRecord =>
    found(world.contacts.find(account, parsePhone(phone) ?? phone), `contact ${phone}`);
  create("/colleague/replies", ({ account, body }) => {
    const { phone, text: words } = body(colleagueReply);
    return messaging.reply(contactWith(account.id, phone), words);
  });
  const withConversation = ({ conversationId, customerWroteAt, humanRepliedAt, runId, ...contact }: ContactRecord): object => {
    return { ...contact, conversationId, conversation: { id: conversationId, customerWroteAt, humanRepliedAt, runId } };
  };
  on("GET", "/contacts/:phone", ({ account, id }) => withConversation(contactWith(account.id, id)));
  on("PUT", "/contacts/:phone", ({ account, id, body }) =>
    withConversation(messaging.contactFor(account.id, id, body(contactFacts)).contact),
  );
}

export function addFlowRoutes({ on, create, listed }: Routes, { world, setup, campaigns, url }: ControlParts): void {
  const templateOf = listed("template", world.templates);
  create("/templates", ({ account, body }) => setup.addTemplate(account, body(templateOrder)));
  on("PATCH", "/templates/:id", (call) => world.templates.update(templateOf(call), call.body(templateChange)));
  on("DELETE", "/templates/:id", (call) => world.templates.delete(templateOf(call).id));
  create("/campaigns", ({ account, body }) => campaigns.start(account.id, body(campaignOrder)));

  const shown = (automation: AutomationRecord) => ({
    ...automation,
    hookUrl: automation.trigger === "incoming-webhook" ? `${url()}${hookPath(automation)}` : null,
  });
  const automationOf = listed("automation", world.automations, shown);
  create("/automations", ({ account, body }) => shown(setup.addAutomation(account, body(automationOrder))));
  on("PATCH", "/automations/:id", (call) => shown(world.automations.update(automationOf(call), call.body(automationChange))));
  on("GET", "/runs", ({ account, query }) => pageOf(world.runs.list(account.id), query(pageQuery)));
  on("GET", "/runs/:id", ({ account, id }) => found(world.runs.of(account.id, id), `run ${id}`));
}

export function addMessageRoutes(
  { on, create }: Routes,
  { world, messaging, events, baseClock }: ControlParts,
  stopping: Promise<void>,
): void {
  const messageOf = ({ account, id }: Call): MessageRecord =>
    found(world.messages.of(account.id, id) ?? world.messages.find(account.id, id), `message ${id}`);
  on("GET", "/messages", ({ account, query }) => {
    const { status, origin, ...page } = query(messagesQuery);
    const matches = (message: MessageRecord) =>
      (status === undefined || message.status === status) && (origin === undefined || message.origin === origin);
    return pageOf(world.messages.list(account.id), page, matches);
  });
  on("GET", "/messages/:id", messageOf);
  on("POST", "/messages/:id/status", (call) => {
    const { status, errorCode } = call.body(statusOrder);
    const message = messageOf(call);
    messaging.setStatus(message, status, errorCode);
    return message;
  });

  on("GET", "/events", ({ account, query }) => {
    const { event, wamid, ...page } = query(eventsQuery);
    const { data, next } = pageOf(
      world.events.list(account.id),
      page,
      (record) => (event === undefined || record.event === event) && (wamid === undefined || record.wamid === wamid),
    );
    const wanted = new Set(data.map(({ id }) => id));
    const deliveries = Map.groupBy(
      world.deliveries.list(account.id).filter(({ eventId }) => wanted.has(eventId)),
      ({ eventId }) => eventId,
    );
    return { data: data.map((record) => ({ ...record, deliveries: deliveries.get(record.id) ?? [] })), next };
  });
  create("/events", ({ account, body }) => {
    const { event, data } = body(newEvent);
    events.publisher.publish(account.id, event, data);
    return found(world.events.list(account.id).at(-1), "event");
  });
  on("GET", "/deliveries/waiting", async ({ query }) => {
    const { forMs } = query(waitQuery);
    if (events.waiting() > 0 && forMs > 0) {
      const late = Promise.withResolvers<void>();
      const cancel = baseClock.after(forMs, late.resolve);
      // A waiting request would hold up a stop.
      await Promise.race([events.idle(), late.promise, stopping]);
      cancel();
    }
    return { waiting: events.waiting() };
  });
}
