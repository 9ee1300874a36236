import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { eventKinds, webhookOptionsSchema, webhookUrl } from "../options.ts";
import type { WebhookRecord } from "../world/records.ts";
import { newSecret } from "./account-setup.ts";
import type { ControlParts } from "./parts.ts";
import { found, Refusal, read } from "./refusal.ts";
import { accountOf, params } from "./request.ts";

const webhookChange = z.strictObject({
  url: webhookUrl.optional(),
  events: eventKinds.optional(),
  isEnabled: z.boolean().optional(),
});
const rotation = z.strictObject({ secret: z.string().min(1).optional() });
const newApp = z.strictObject({ name: z.string().min(1).max(200) });

/** Webhook URLs, and the AI apps connected over MCP. */
export function addWebhookRoutes(app: FastifyInstance, { world, setup, posting, callbacks }: ControlParts): void {
  app.get("/sandbox/webhooks", (request) => ({ data: world.webhooks.list(accountOf(world, request).id) }));
  /** As Meta does it, a URL is not saved when its handshake fails. */
  const verified = async (webhook: WebhookRecord): Promise<void> => {
    const failure = (await callbacks?.verify(webhook))?.reason ?? null;
    if (failure !== null) throw new Refusal(400, `the handshake with ${webhook.url} failed: ${failure}`);
  };
  app.post("/sandbox/webhooks", async (request, reply) => {
    const order = read(webhookOptionsSchema, request.body);
    // An app of Meta has one secret.
    const own = order.secret ?? (callbacks === null ? newSecret() : undefined);
    const webhook = setup.addWebhook(accountOf(world, request), { ...order, secret: own });
    const { id, url, events, secret } = webhook;
    try {
      await verified(webhook);
    } catch (error) {
      world.webhooks.delete(id);
      throw error;
    }
    reply.code(201);
    return { id, url, events, secret };
  });
  const webhookOf = (request: Parameters<typeof params>[0]) => {
    const { id = "" } = params(request);
    return found(world.webhooks.of(accountOf(world, request).id, id), `webhook ${id}`);
  };
  app.patch("/sandbox/webhooks/:id", async (request) => {
    const webhook = webhookOf(request);
    const change = read(webhookChange, request.body);
    if (change.url !== undefined) {
      await verified({ ...webhook, url: change.url });
      webhook.url = change.url;
    }
    if (change.events !== undefined) webhook.events = change.events;
    if (change.isEnabled !== undefined) webhook.isEnabled = change.isEnabled;
    world.webhooks.put(webhook);
    posting.webhookChanged(webhook.id);
    return webhook;
  });
  app.delete("/sandbox/webhooks/:id", (request, reply) => {
    const { id } = webhookOf(request);
    world.webhooks.delete(id);
    posting.webhookChanged(id);
    reply.code(204).send();
  });
  if (callbacks !== null) app.post("/sandbox/webhooks/:id/verify", (request) => callbacks.verify(webhookOf(request)));
  app.post("/sandbox/webhooks/:id/rotate", (request) => {
    const webhook = webhookOf(request);
    webhook.secret = read(rotation, request.body).secret ?? newSecret();
    world.webhooks.put(webhook);
    return { secret: webhook.secret };
  });

  app.get("/sandbox/apps", (request) => ({ data: world.apps.list(accountOf(world, request).id) }));
  app.post("/sandbox/apps", (request, reply) => {
    const { id, name, token } = setup.addApp(accountOf(world, request), read(newApp, request.body).name);
    reply.code(201);
    return { id, name, token };
  });
  app.delete("/sandbox/apps/:id", (request, reply) => {
    const { id = "" } = params(request);
    world.apps.delete(found(world.apps.of(accountOf(world, request).id, id), `app ${id}`).id);
    reply.code(204).send();
  });
}
