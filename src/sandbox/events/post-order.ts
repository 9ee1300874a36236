import type { World } from "../world/world.ts";
import { truncatedBody } from "./event-body.ts";
import type { PendingPost } from "./pending-post.ts";
import type { PostOrder } from "./poster.ts";

/** What is to be posted for a delivery, from the records as they are now; a text says why nothing is. */
export function orderFor(world: World, { delivery, faults }: PendingPost): PostOrder | string {
  const webhook = world.webhooks.get(delivery.webhookId);
  if (webhook === undefined) return "webhook deleted";
  if (!webhook.isEnabled) return "webhook disabled";
  const event = world.events.get(delivery.eventId);
  if (event === undefined) return "event forgotten";
  const body = faults.truncate ? truncatedBody(event.body) : Buffer.from(event.body, "utf8");
  return { webhook, eventId: event.id, body, signature: "right" };
}
