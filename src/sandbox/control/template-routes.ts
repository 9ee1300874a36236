import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { CampaignRecord } from "../world/records.ts";
import { newTemplate } from "./new-template.ts";
import type { ControlParts } from "./parts.ts";
import { found, read } from "./refusal.ts";
import { accountOf, params } from "./request.ts";

const status = z.enum(["approved", "pending", "rejected"]);
const variable = z.strictObject({
  name: z.string().min(1).max(100),
  label: z.string().max(200).optional(),
  example: z.string().max(1024),
  fallback: z.string().max(1024).optional(),
});
const templateOrder = z.strictObject({
  name: z.string().min(1).max(200),
  body: z.string().min(1).max(4096),
  variables: z.array(variable).default([]),
  language: z.string().min(2).max(10).default("es_AR"),
  category: z.string().min(1).max(50).default("UTILITY"),
  status: status.default("approved"),
});
const campaignOrder = z
  .strictObject({
    name: z.string().min(1).max(200),
    templateId: z.string().optional(),
    phones: z.array(z.string()).min(1).max(1_000_000).optional(),
    recipients: z.number().int().min(0).optional(),
    perSecond: z.number().positive().max(10_000).optional(),
  })
  .refine(({ phones, recipients }) => (phones === undefined) !== (recipients === undefined), "needs phones or recipients, not both");

/** Templates, and the campaigns that send them. */
export function addTemplateRoutes(app: FastifyInstance, { world, clock, ids, campaigns }: ControlParts): void {
  app.get("/sandbox/templates", (request) => ({ data: world.templates.list(accountOf(world, request).id) }));
  app.post("/sandbox/templates", (request, reply) => {
    const { id: account } = accountOf(world, request);
    const template = newTemplate({ id: ids(), account, createdAt: clock.now() }, read(templateOrder, request.body));
    world.templates.put(template);
    reply.code(201);
    return template;
  });
  const templateOf = (request: Parameters<typeof params>[0]) => {
    const { id = "" } = params(request);
    return found(world.templates.of(accountOf(world, request).id, id), `template ${id}`);
  };
  app.patch("/sandbox/templates/:id", (request) => {
    const template = templateOf(request);
    template.status = read(z.strictObject({ status }), request.body).status;
    world.templates.put(template);
    return template;
  });
  app.delete("/sandbox/templates/:id", (request, reply) => {
    world.templates.delete(templateOf(request).id);
    reply.code(204).send();
  });

  // A long list of phones is no small body.
  app.post("/sandbox/campaigns", { bodyLimit: 64 * 1024 ** 2 }, (request, reply): CampaignRecord => {
    const { id: account } = accountOf(world, request);
    const campaign = campaigns.start(account, read(campaignOrder, request.body));
    reply.code(201);
    return campaign;
  });
}
