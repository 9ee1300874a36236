import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { signingSchema } from "../signing.ts";
import type { AutomationRecord, AutomationStep } from "../world/records.ts";
import type { ControlParts } from "./parts.ts";
import { found, read } from "./refusal.ts";
import { accountOf, pageOf, pageQuery, params } from "./request.ts";

const step: z.ZodType<AutomationStep> = z.lazy(() =>
  z.union(
    [
      z.strictObject({ type: z.literal("send"), text: z.string().min(1).max(4096) }),
      z.strictObject({ type: z.literal("send"), templateId: z.string(), variables: z.record(z.string(), z.string()).optional() }),
      z.strictObject({ type: z.literal("wait"), ms: z.number().int().min(0) }),
      z.strictObject({
        type: z.literal("request"),
        url: z.url({ protocol: /^https?$/ }),
        body: z.unknown(),
        onSuccess: z.array(step).optional(),
        onError: z.array(step).optional(),
      }),
      z.strictObject({ type: z.literal("fail"), error: z.string() }),
    ],
    {
      error:
        "is no step: {type: send, text | templateId, variables?}, {type: wait, ms}, {type: request, url, body, onSuccess?, onError?} or {type: fail, error}",
    },
  ),
) as z.ZodType<AutomationStep>;
const steps = z.array(step).max(1_000);
const status = z.enum(["draft", "published", "paused"]);
const newAutomation = z.strictObject({
  name: z.string().min(1).max(200),
  trigger: z.enum(["manual", "incoming-webhook", "customer-message"]).default("manual"),
  status: status.default("published"),
  steps: steps.default([]),
  signature: signingSchema.optional(),
});
const automationChange = z.strictObject({ status: status.optional(), steps: steps.optional() });

/** Automations and their runs. */
export function addFlowRoutes(app: FastifyInstance, { world, setup, url, hookPath }: ControlParts): void {
  const shown = (automation: AutomationRecord) => ({
    ...automation,
    hookUrl: automation.trigger === "incoming-webhook" ? `${url()}${hookPath(automation)}` : null,
  });
  app.get("/sandbox/automations", (request) => ({ data: world.automations.list(accountOf(world, request).id).map(shown) }));
  app.post("/sandbox/automations", (request, reply) => {
    const automation = setup.addAutomation(accountOf(world, request), read(newAutomation, request.body));
    reply.code(201);
    return shown(automation);
  });
  app.patch("/sandbox/automations/:id", (request) => {
    const { id = "" } = params(request);
    const automation = found(world.automations.of(accountOf(world, request).id, id), `automation ${id}`);
    const change = read(automationChange, request.body);
    if (change.status !== undefined) automation.status = change.status;
    if (change.steps !== undefined) automation.steps = change.steps;
    world.automations.put(automation);
    return shown(automation);
  });

  app.get("/sandbox/runs", (request) => pageOf(world.runs.list(accountOf(world, request).id), read(pageQuery, request.query)));
  app.get("/sandbox/runs/:id", (request) => {
    const { id = "" } = params(request);
    return found(world.runs.of(accountOf(world, request).id, id), `run ${id}`);
  });
}
