import { z } from "zod";
import { whereSchema } from "./where-settings.ts";

/** What a route takes. All that is given must hold. */
export const matchSchema = z.strictObject({
  /** Event kinds, with `*` for any run of characters. */
  events: z.array(z.string().min(1)).min(1).default(["*"]),
  statuses: z.array(z.string().min(1)).min(1).optional(),
  sources: z.array(z.string()).min(1).optional(),
  accounts: z.array(z.string()).min(1).optional(),
  /** true: only messages and runs that were registered; false: only others. */
  tracked: z.boolean().optional(),
  /** Error codes as text; numbers in the file are taken as their text. */
  errorCodes: z
    .array(z.union([z.string(), z.number()]).transform(String))
    .min(1)
    .optional(),
  /** `*` patterns for the reference given at registration. */
  references: z.array(z.string().min(1)).min(1).optional(),
  /** Condition on the metadata given at registration. */
  metadata: whereSchema.optional(),
  /** Condition on the event's `data`. */
  where: whereSchema.optional(),
});
export type Match = z.infer<typeof matchSchema>;

/** The part of a route's settings that routing reads. */
export const routingSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)"),
  match: matchSchema.prefault({}),
  /** `events`: each event; `transitions`: only events that moved a status. */
  emit: z.enum(["events", "transitions"]).default("events"),
  /**
   * Of an event that came without its data, while the service is asked what it was about: `forward` it at once, or
   * `hold` it, and forward it only when the news found by asking may not be all.
   */
  truncated: z.enum(["forward", "hold"]).default("forward"),
});
export type RoutingSettings = z.infer<typeof routingSchema>;

/** What becomes of an event on a route that wants tracked messages, while nobody has registered its wamid. */
export const trackingSchema = z.enum(["park", "ignore", "forward"]);
export type UnknownPolicy = z.infer<typeof trackingSchema>;
