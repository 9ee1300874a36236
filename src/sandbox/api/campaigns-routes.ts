import type { FastifyInstance } from "fastify";
import type { CampaignRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { callerOf } from "./gate.ts";

/** "Not paginated; returns the latest 100" (messaging-service-api.md, "GET /campaigns"). */
const latest = 100;

/** `GET /campaigns`, newest first: the order is the sandbox's choice, as is `data` around the list. */
export function addCampaignsRoutes(app: FastifyInstance, { world }: { readonly world: World }): void {
  app.get("/campaigns", (request, reply) => {
    const campaigns = world.campaigns.list(callerOf(request).account.id).slice(-latest).reverse();
    return reply.send({ data: campaigns.map(viewOf) });
  });
}

/** The document names the totals only: deliveries, reads, replies. */
function viewOf({ id, name, templateId, createdAt, total, sent, deliveries, reads, replies, failed }: CampaignRecord): unknown {
  return { id, name, templateId, createdAt: new Date(createdAt).toISOString(), total, sent, deliveries, reads, replies, failed };
}
