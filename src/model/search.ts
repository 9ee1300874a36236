import { z } from "zod";
import { component, foreign, pii, time, type View } from "./view.ts";

const searchHitSchema = component("SearchHit", "One thing that a search found.", {
  kind: z.enum(["message", "run", "event", "delivery"]).describe("What was found."),
  id: pii("hit", z.string()).describe("The wamid, run id, event id or delivery id; of a quarantined body its seq."),
  seq: z.int().min(0).nullable().describe("The seq of the event, or of the delivery's event; null for messages and runs."),
  account: z.string().describe("The account that it belongs to."),
  label: foreign.describe("The reference of a message or run, the kind of an event, the route of a delivery; empty when there is none."),
  status: foreign.nullable().describe("The status; of a delivery its state, of an event without a status its disposition."),
  at: time.describe("When the message or run changed, the event was received, or the delivery settled."),
});
export type SearchHitView = View<typeof searchHitSchema>;
export type SearchHit = z.infer<typeof searchHitSchema>;

export const searchSchema = component("SearchHits", "What a search found.", {
  data: z.array(searchHitSchema).describe("At most 20, best first: what has exactly this name, then phone numbers, then references."),
  more: z.boolean().describe("Whether there may be more. The lists have all of them."),
});
