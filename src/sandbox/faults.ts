import { z } from "zod";
import { mostUpdates } from "./meta/request-body.ts";

const share = z.number().min(0).max(1);
const ms = z.number().int().min(0);

// docs/contributing/sandbox.md, "Faults", describes every field.

export const eventFaultsSchema = z.strictObject({
  duplicate: share.default(0),
  reorder: share.default(0),
  delay: share.default(0),
  delayMs: ms.default(5_000),
  drop: share.default(0),
  truncate: share.default(0),
  wrongSignature: share.default(0),
  malformed: share.default(0),
});
export type EventFaults = z.infer<typeof eventFaultsSchema>;

export const metaFaultsSchema = z.strictObject({
  batch: z.number().int().min(1).max(mostUpdates).default(1),
  batchMs: ms.default(1_000),
  skip: share.default(0),
  early: share.default(0),
  group: share.default(0),
  username: share.default(0),
  call: share.default(0),
  unknown: share.default(0),
});
export type MetaFaults = z.infer<typeof metaFaultsSchema>;

export const apiFaultSchema = z.strictObject({
  answer: z.union([z.literal(500), z.literal(502), z.literal(429), z.literal("hang"), z.literal("reset"), z.literal("malformed")]),
  endpoint: z.string().optional(),
  when: z.enum(["before", "after"]).default("before"),
  times: z.number().int().min(1).optional(),
  share: share.default(1),
  retryAfter: z.number().int().min(0).default(60),
  error: z.string().optional(),
});
export type ApiFaultSettings = z.infer<typeof apiFaultSchema>;

export const faultsSchema = z.strictObject({
  events: eventFaultsSchema.prefault({}),
  api: z.array(apiFaultSchema).default([]),
  meta: metaFaultsSchema.prefault({}),
});
export type FaultSettings = z.infer<typeof faultsSchema>;
