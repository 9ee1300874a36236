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
  type EventRecord,
  type MessageRecord,
  messageOrigins,
  planNames,
  plans,
  quotas,
  templateOrder,
  type WebhookRecord,
} from "../world.ts";
import { keyFor } from "./account-setup.ts";
import {
  type Call,
  type ControlParts,
  createRoutes,
  found,
  none,
  pageOf,
  pageQuery,
  type Routes,
  refusal,
  wholeNumber,
} from "./routes.ts";

export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  void app.register(async (scope) => {
    const routes = createRoutes(scope, parts.world);
    const stopping = Promise.withResolvers<void>();
    scope.addHook("preClose", async () => stopping.resolve());
    addWorldRoutes(routes, parts);
    addAccountRoutes(routes, parts);
    addWebhookRoutes(routes, parts);
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

function addWorldRoutes(
  { on }: Routes,
  { world, clock, faults, events, limits, url }: ControlParts,
): void {
  const time = () => ({
    now: clock.now(),
    iso: new Date(clock.now()).toISOString(),
    frozen: clock.isFrozen,
  });
  on("GET ", none, () => ({
    url: url(),
    apiUrl: `${url()}/api/v1`,
    accounts: [...world.accounts.all()].map(({ id, plan }) => ({ name: id, plan })),
    clock: time(),
    faults: faults.current,
    counts: {
      ...Object.fromEntries(Object.entries(world).map(([name, { size }]) => [name, size])),
      deliveriesWaiting: events.waiting(),
    },
  }));
  on("GET /clock", none, time);
  on("POST /clock", clockOrder, ({ input: { advanceMs, frozen } }) => {
    if (frozen === true) clock.freeze();
    if (frozen === false) clock.thaw();
    if (advanceMs !== undefined) clock.advance(advanceMs);
    return time();
  });
  on("GET /faults", none, () => faults.current);
  on("PUT /faults", faultsSchema, ({ input }) => {
    faults.current = input;
    return input;
  });
  on("DELETE /faults", none, () => {
    faults.current = faultsSchema.parse({});
  });
  on("DELETE /blocks", none, () => limits.forgetBlocks());
}

const plan = z.enum(planNames).exactOptional();
const contactLimit = z.number().int().min(0).nullable();
const isConnected = z.boolean();
const newAccount = z.strictObject({
  name: z
    .string()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
      "must be a name: letters, digits, . _ -, at most 64",
    ),
  plan,
  contactLimit: contactLimit.default(null),
});
const accountChange = z.strictObject({
  plan,
  contactLimit: contactLimit.exactOptional(),
  isConnected: isConnected.exactOptional(),
});

function addAccountRoutes(
  routes: Routes,
  { world, setup, clock, limits, defaultPlan }: ControlParts,
): void {
  const { on, create, listed } = routes;
  on("GET /accounts", none, () => ({ data: [...world.accounts.all()].map(shownAccount) }));
  create(
    "/accounts",
    newAccount,
    ({ input: { name, plan: asked = defaultPlan, contactLimit: limit } }) => {
      if (world.accounts.get(name) !== undefined)
        throw refusal(409, `there is an account ${name} already`);
      const account = setup.addAccount(name, asked, limit);
      const { key } = setup.giveKey(account, "first");
      return { ...shownAccount(account), key, phoneNumberId: account.numbers[0]?.phoneNumberId };
    },
  );
  on("PATCH /accounts/:name", accountChange, (call) =>
    shownAccount(
      world.accounts.update(found(world.accounts.get(call.id), `account ${call.id}`), call.input),
    ),
  );

  const usageOf = (
    { id, plan: its }: AccountRecord,
    { month, ...used }: AccountRecord["usage"],
  ) => ({
    month,
    ...Object.fromEntries(
      quotas.map((name) => [name, { used: used[name], limit: plans[its][name] }]),
    ),
    perMinute: limits.perMinute(id),
  });
  on(
    "GET /usage",
    z.strictObject({ shown: z.enum(["0", "1"]).default("0") }),
    ({ account, input }) =>
      usageOf(account, input.shown === "1" ? limits.shownUsage(account) : limits.usage(account)),
  );
  on(
    "PUT /usage",
    z.partialRecord(z.enum(quotas), z.number().int().min(0)),
    ({ account, input }) => {
      // Read first: it may begin a new month, which clears the old numbers.
      world.accounts.update(account, { usage: { ...limits.usage(account), ...input } });
      return usageOf(account, limits.usage(account));
    },
  );

  on("GET /numbers", none, ({ account }) => ({ data: account.numbers }));
  create(
    "/numbers",
    z.strictObject({ phoneNumberId: z.string().min(1).max(64).optional() }),
    ({ account, input: { phoneNumberId } }) => {
      if (account.numbers.some((number) => number.phoneNumberId === phoneNumberId)) {
        throw refusal(409, `there is a number ${phoneNumberId} already`);
      }
      return setup.addNumber(account, phoneNumberId);
    },
  );
  on("PATCH /numbers/:phoneNumberId", z.strictObject({ isConnected }), (call) => {
    const { account, id } = call;
    const ofId = account.numbers.find(({ phoneNumberId }) => phoneNumberId === id);
    const number = Object.assign(found(ofId, `number ${id}`), call.input);
    world.accounts.put(account);
    return number;
  });

  const keyOf = listed("key", world.keys, ({ id, key, label, revokedAt }) => ({
    id,
    key,
    label,
    isRevoked: revokedAt !== null,
  }));
  create(
    "/keys",
    z.strictObject({ label: z.string().max(200).default("") }),
    ({ account, input }) => {
      const { id, key, label } = setup.addKey(account, input.label);
      return { id, key, label };
    },
  );
  on("DELETE /keys/:id", none, (call) => {
    const key = keyOf(call);
    world.keys.update(key, { revokedAt: key.revokedAt ?? clock.now() });
  });

  const appOf = listed("app", world.apps);
  create("/apps", z.strictObject({ name: z.string().min(1).max(200) }), ({ account, input }) => {
    const { id, name, token } = setup.addApp(account, input.name);
    return { id, name, token };
  });
  on("DELETE /apps/:id", none, (call) => world.apps.delete(appOf(call).id));
}

function shownAccount({ id, usage: _, account: __, createdAt: ___, ...shown }: AccountRecord) {
  return { name: id, ...shown };
}

const webhookChange = z.strictObject({
  url: webhookUrl.exactOptional(),
  events: eventKinds.exactOptional(),
  isEnabled: z.boolean().exactOptional(),
});

function addWebhookRoutes(
  { on, create, listed }: Routes,
  { world, setup, events, callbacks }: ControlParts,
): void {
  const webhookOf = listed("webhook", world.webhooks);
  /** As Meta does it, a URL is not saved when its handshake fails. */
  const verified = async (webhook: WebhookRecord): Promise<void> => {
    const failure = (await callbacks?.verify(webhook))?.reason ?? null;
    if (failure !== null)
      throw refusal(400, `the handshake with ${webhook.url} failed: ${failure}`);
  };
  create("/webhooks", webhookOptionsSchema, async ({ account, input }) => {
    // An app of Meta has one secret.
    const own = input.secret ?? (callbacks === null ? newSecret() : undefined);
    const webhook = setup.addWebhook(account, { ...input, secret: own });
    const { id, url, events, secret } = webhook;
    try {
      await verified(webhook);
    } catch (error) {
      world.webhooks.delete(id);
      throw error;
    }
    return { id, url, events, secret };
  });
  on("PATCH /webhooks/:id", webhookChange, async (call) => {
    const webhook = webhookOf(call);
    const change = call.input;
    if (change.url !== undefined) await verified({ ...webhook, url: change.url });
    world.webhooks.update(webhook, change);
    events.posting.webhookChanged(webhook.id);
    return webhook;
  });
  on("DELETE /webhooks/:id", none, (call) => {
    const { id } = webhookOf(call);
    world.webhooks.delete(id);
    events.posting.webhookChanged(id);
  });
  if (callbacks !== null)
    on("POST /webhooks/:id/verify", none, (call) => callbacks.verify(webhookOf(call)));
  on(
    "POST /webhooks/:id/rotate",
    z.strictObject({ secret: z.string().min(1).optional() }),
    (call) => {
      const webhook = webhookOf(call);
      const secret = keyFor(webhook.signature, call.input.secret ?? newSecret());
      world.webhooks.update(webhook, { secret });
      return { secret };
    },
  );
}

const text = z.string().min(1).max(4096);
const name = z.string().max(200).exactOptional();
const customerWord = z.strictObject({ text, name, phoneNumberId: z.string().exactOptional() });
const contactFacts = z.strictObject({
  name,
  attributes: z.record(z.string(), z.string()).exactOptional(),
});

function addPeopleRoutes(
  { on, create }: Routes,
  { world, messaging, customerWrites }: ControlParts,
): void {
  // Two words for one thing: a customer's message is the reply to the last campaign message.
  for (const word of ["messages", "replies"]) {
    create(`/customers/:phone/${word}`, customerWord, ({ account, id, input }) =>
      customerWrites(account.id, { phone: id, ...input }),
    );
  }
  const contactWith = ({ id }: AccountRecord, phone: string): ContactRecord =>
    found(world.contacts.find(id, parsePhone(phone) ?? phone), `contact ${phone}`);
  create("/colleague/replies", z.strictObject({ phone: z.string(), text }), ({ account, input }) =>
    messaging.reply(contactWith(account, input.phone), input.text),
  );
  const withConversation = ({
    customerWroteAt,
    humanRepliedAt,
    runId,
    ...contact
  }: ContactRecord): object => {
    return {
      ...contact,
      conversation: { id: contact.conversationId, customerWroteAt, humanRepliedAt, runId },
    };
  };
  on("GET /contacts/:phone", none, ({ account, id }) => withConversation(contactWith(account, id)));
  on("PUT /contacts/:phone", contactFacts, ({ account, id, input }) =>
    withConversation(messaging.contactFor(account.id, id, input).contact),
  );
}

const { status: templateStatus } = templateOrder.shape;
const { status: automationStatus, steps } = automationOrder.shape;
const automationChange = z.strictObject({
  status: automationStatus.unwrap().exactOptional(),
  steps: steps.unwrap().exactOptional(),
});

function addFlowRoutes(
  { on, create, listed }: Routes,
  { world, setup, campaigns, url }: ControlParts,
): void {
  const templateOf = listed("template", world.templates);
  create("/templates", templateOrder, ({ account, input }) => setup.addTemplate(account, input));
  on("PATCH /templates/:id", z.strictObject({ status: templateStatus.unwrap() }), (call) =>
    world.templates.update(templateOf(call), call.input),
  );
  on("DELETE /templates/:id", none, (call) => world.templates.delete(templateOf(call).id));
  create("/campaigns", campaignOrder, ({ account, input }) => campaigns.start(account.id, input));

  const shown = (automation: AutomationRecord) => ({
    ...automation,
    hookUrl: automation.trigger === "incoming-webhook" ? `${url()}${hookPath(automation)}` : null,
  });
  const automationOf = listed("automation", world.automations, shown);
  create("/automations", automationOrder, ({ account, input }) =>
    shown(setup.addAutomation(account, input)),
  );
  on("PATCH /automations/:id", automationChange, (call) =>
    shown(world.automations.update(automationOf(call), call.input)),
  );
  on("GET /runs", pageQuery, ({ account, input }) => pageOf(world.runs.list(account.id), input));
  on("GET /runs/:id", none, ({ account, id }) => found(world.runs.of(account.id, id), `run ${id}`));
}

const status = z.enum(messageStatuses);
const messagesQuery = pageQuery.extend({
  status: status.optional(),
  origin: z.enum(messageOrigins).optional(),
});
const statusOrder = z.strictObject({
  status,
  errorCode: z.union([z.string(), z.number()]).optional(),
});
const eventsQuery = pageQuery.extend({
  event: z.string().optional(),
  wamid: z.string().optional(),
});
const newEvent = z.strictObject({
  event: z.string().min(1).max(256),
  data: z.record(z.string(), z.unknown()).default({}),
});

function addMessageRoutes(
  { on, create }: Routes,
  { world, messaging, events, baseClock }: ControlParts,
  stopping: Promise<void>,
): void {
  const messageOf = ({ account, id }: Pick<Call, "account" | "id">): MessageRecord =>
    found(
      world.messages.of(account.id, id) ?? world.messages.find(account.id, id),
      `message ${id}`,
    );
  on("GET /messages", messagesQuery, ({ account, input: { status, origin, ...page } }) => {
    const matches = (message: MessageRecord) =>
      message.status === (status ?? message.status) &&
      message.origin === (origin ?? message.origin);
    return pageOf(world.messages.list(account.id), page, matches);
  });
  on("GET /messages/:id", none, messageOf);
  on("POST /messages/:id/status", statusOrder, (call) => {
    const { status, errorCode } = call.input;
    const message = messageOf(call);
    messaging.setStatus(message, status, errorCode);
    return message;
  });

  on("GET /events", eventsQuery, ({ account, input: { event, wamid, ...page } }) => {
    const matches = (record: EventRecord) =>
      record.event === (event ?? record.event) && record.wamid === (wamid ?? record.wamid);
    const { data, next } = pageOf(world.events.list(account.id), page, matches);
    const wanted = new Set(data.map(({ id }) => id));
    const theirs = world.deliveries.list(account.id).filter(({ eventId }) => wanted.has(eventId));
    const deliveries = Map.groupBy(theirs, ({ eventId }) => eventId);
    return {
      data: data.map((record) => ({ ...record, deliveries: deliveries.get(record.id) ?? [] })),
      next,
    };
  });
  create("/events", newEvent, ({ account, input: { event, data } }) => {
    events.publisher.publish(account.id, event, data);
    return found(world.events.list(account.id).at(-1), "event");
  });
  on(
    "GET /deliveries/waiting",
    z.strictObject({ forMs: wholeNumber(600_000).default(0) }),
    async ({ input: { forMs } }) => {
      if (events.waiting() > 0 && forMs > 0) {
        const late = Promise.withResolvers<void>();
        const cancel = baseClock.after(forMs, late.resolve);
        // A waiting request would hold up a stop.
        await Promise.race([events.idle(), late.promise, stopping]);
        cancel();
      }
      return { waiting: events.waiting() };
    },
  );
}
