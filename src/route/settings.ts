import { z } from "zod";

/** Comparison operators of `where`, in the manner of MongoDB's query language. */
export const whereOperators = ["$eq", "$ne", "$in", "$gt", "$gte", "$lt", "$lte", "$exists", "$startsWith", "$endsWith", "$regex"] as const;

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const ordered = z.union([z.string(), z.number()]);

const regexText = z.string().superRefine((text, context) => {
  try {
    new RegExp(text, "u");
  } catch (error) {
    context.addIssue({ code: "custom", message: `is not a regular expression: ${(error as Error).message}` });
  }
});

const comparisonSchema = z.strictObject({
  $eq: scalar.optional(),
  $ne: scalar.optional(),
  $in: z.array(scalar).optional(),
  $gt: ordered.optional(),
  $gte: ordered.optional(),
  $lt: ordered.optional(),
  $lte: ordered.optional(),
  $exists: z.boolean().optional(),
  $startsWith: z.string().optional(),
  $endsWith: z.string().optional(),
  $regex: regexText.optional(),
});
export type Comparison = z.infer<typeof comparisonSchema>;

/** A condition on `data`: dotted paths to a value or to operators, and `$or` `$and` `$not` around conditions. */
export interface Where {
  readonly $or?: readonly Where[] | undefined;
  readonly $and?: readonly Where[] | undefined;
  readonly $not?: Where | undefined;
  readonly [path: string]: unknown;
}

export const whereSchema: z.ZodType<Where> = z.lazy(() =>
  z
    .object({
      $or: z.array(whereSchema).min(1).optional(),
      $and: z.array(whereSchema).min(1).optional(),
      $not: whereSchema.optional(),
    })
    .catchall(z.union([scalar, comparisonSchema]))
    .superRefine((where, context) => {
      for (const key of Object.keys(where)) {
        if (key.startsWith("$") && key !== "$or" && key !== "$and" && key !== "$not") {
          context.addIssue({ code: "custom", path: [key], message: "unknown operator here; paths stand outside, operators inside" });
        }
      }
    }),
) as z.ZodType<Where>;

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
});
export type RoutingSettings = z.infer<typeof routingSchema>;

/** What becomes of an event on a route that wants tracked messages, while nobody has registered its wamid. */
export const trackingSchema = z.enum(["park", "ignore", "forward"]);
export type UnknownPolicy = z.infer<typeof trackingSchema>;
