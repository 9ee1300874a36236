import type { FastifyInstance } from "fastify";
import { approvedTemplates } from "../messaging/templates.ts";
import type { TemplateRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { callerOf } from "./gate.ts";

/** `GET /templates`. */
export function addTemplatesRoutes(app: FastifyInstance, { world }: { readonly world: World }): void {
  app.get("/templates", (request, reply) => reply.send({ data: approvedTemplates(world, callerOf(request).account.id).map(viewOf) }));
}

/** Exactly the fields of messaging-service-api.md, "Template (as listed)": the text and the examples are not among them. */
function viewOf({ id, name, metaName, language, category, wabaId, variables }: TemplateRecord): Record<string, unknown> {
  return { id, name, metaName, language, category, wabaId, variables: variables.map(({ name, label }) => ({ name, label })) };
}
