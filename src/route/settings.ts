import { z } from "zod";
import { whereSchema } from "./where.ts";

export const matchSchema = z.strictObject({
  events: z
    .array(z.string().min(1))
    .min(1)
    .default(["*"])
    .describe("Event kinds, with * for any run of characters."),
  statuses: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("Statuses that the event reports."),
  sources: z.array(z.string()).min(1).optional().describe("Sources that received it."),
  accounts: z.array(z.string()).min(1).optional().describe("Accounts that it belongs to."),
  tracked: z
    .boolean()
    .optional()
    .describe("true: only registered messages and runs. false: only others."),
  errorCodes: z
    .array(z.union([z.string(), z.number()]).transform(String))
    .min(1)
    .optional()
    .describe("Error codes. Numbers count as their text."),
  references: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("Patterns, with *, for the reference given at registration."),
  metadata: whereSchema.optional().describe("Condition on the metadata given at registration."),
  where: whereSchema
    .optional()
    .describe("Condition on the event's data: dotted paths to a value or to operators."),
});
export type Match = z.infer<typeof matchSchema>;

/** Of a route, account, source or token. */
export const nameSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)");

export const routingSchema = z.strictObject({
  name: nameSchema.describe("The route's name, which is stored with its deliveries. Unique."),
  match: matchSchema
    .prefault({})
    .describe("Which events it takes. All criteria given must hold. Default: every event."),
  emit: z
    .enum(["events", "transitions"])
    .default("events")
    .describe("events: each event. transitions: only events that moved a status."),
  truncated: z
    .enum(["forward", "hold"])
    .default("forward")
    .describe(
      "For a truncated event, while the relay hydrates it: forward it at once, or hold it and forward it only when hydration may have missed something.",
    ),
});
export type RoutingSettings = z.infer<typeof routingSchema>;

/** For routes for tracked messages. */
export const trackingSchema = z.enum(["park", "ignore", "forward"]);
export type UnknownPolicy = z.infer<typeof trackingSchema>;
