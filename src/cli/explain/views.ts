import { z } from "zod";
import { attemptSchema, deliverySchema, eventSchema } from "../control-views.ts";

const tracked = {
  account: z.string(),
  reference: z.string().nullable(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  status: z.string().nullable(),
  times: z.record(z.string(), z.string()),
  registeredAt: z.string().nullable(),
};
const messageSchema = z.looseObject({
  ...tracked,
  wamid: z.string(),
  id: z.string().nullable(),
  errorCode: z.string().nullable(),
  sentAt: z.string().nullable(),
});
const runSchema = z.looseObject({ ...tracked, runId: z.string(), error: z.string().nullable() });

const nextSchema = z.looseObject({
  kind: z.string(),
  at: z.string().nullable(),
  behind: z.number().nullable(),
  ahead: z.number(),
  reason: z.string().nullable(),
});
export type NextView = z.infer<typeof nextSchema>;

const hydrationSchema = z.looseObject({
  state: z.string(),
  reason: z.string().nullable(),
  asked: z.number(),
  found: z.array(z.looseObject({ seq: z.number(), wamid: z.string().nullable(), status: z.string().nullable() })),
  foundCount: z.number(),
  unknown: z.number().nullable(),
  candidates: z.array(z.looseObject({ runId: z.string(), reference: z.string().nullable() })).nullable(),
});
export type HydrationView = z.infer<typeof hydrationSchema>;

const waitsSchema = z.looseObject({ since: z.string(), ahead: z.number() });
export type WaitsView = z.infer<typeof waitsSchema>;

const eventStorySchema = eventSchema.extend({
  hydration: hydrationSchema.nullable(),
  // A relay of an older version tells of neither this nor what was not looked at.
  waits: waitsSchema.nullable().default(null),
  routes: z.array(z.looseObject({ route: z.string(), verdict: z.string(), reason: z.string().optional() })),
  deliveries: z.array(deliverySchema.extend({ tries: z.array(attemptSchema), earlierTries: z.number(), next: nextSchema })),
});
export type EventStoryView = z.infer<typeof eventStorySchema>;
export type DeliveryStoryView = EventStoryView["deliveries"][number];

const storySchema = z.looseObject({
  message: messageSchema.nullable(),
  run: runSchema.nullable(),
  events: z.array(eventStorySchema),
  next: z.number().nullable(),
});
export type StoryView = z.infer<typeof storySchema>;

export const explainedSchema = z.looseObject({ data: z.array(storySchema), unseen: z.number().default(0) });
