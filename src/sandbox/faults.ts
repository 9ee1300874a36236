import { z } from "zod";
import { mostUpdates } from "./meta/request-body.ts";

const share = z.number().min(0).max(1);
const ms = z.number().int().min(0);

/** Shares of all posts, from 0 to 1. */
export const eventFaultsSchema = z.strictObject({
  duplicate: share.default(0),
  reorder: share.default(0),
  delay: share.default(0),
  delayMs: ms.default(5_000),
  drop: share.default(0),
  truncate: share.default(0),
  wrongSignature: share.default(0),
  /** A body that is no envelope is posted beside the right one. */
  malformed: share.default(0),
});
export type EventFaults = z.infer<typeof eventFaultsSchema>;

/** Faults of the format `meta`. Shares are of messages, of people for `username`. */
export const metaFaultsSchema = z.strictObject({
  /** Updates in a request; it is posted `batchMs` after its first at the latest. */
  batch: z.number().int().min(1).max(mostUpdates).default(1),
  batchMs: ms.default(1_000),
  /** `delivered` is not reported when `read` follows. */
  skip: share.default(0),
  /** The first status is posted before the send is answered. */
  early: share.default(0),
  /** The message went to a group of three: each status is reported once for each. */
  group: share.default(0),
  /** No phone number is reported. */
  username: share.default(0),
  call: share.default(0),
  unknown: share.default(0),
});
export type MetaFaults = z.infer<typeof metaFaultsSchema>;

export const apiFaultSchema = z.strictObject({
  answer: z.union([z.literal(500), z.literal(502), z.literal(429), z.literal("hang"), z.literal("reset"), z.literal("malformed")]),
  /** Such as `GET /messages/{id}`; not given: all. */
  endpoint: z.string().optional(),
  /** `after`: the work is done before the answer is spoilt. 429 is always before. */
  when: z.enum(["before", "after"]).default("before"),
  times: z.number().int().min(1).optional(),
  share: share.default(1),
  /** Seconds, for 429. */
  retryAfter: z.number().int().min(0).default(60),
  /** Text, for 500 and 502. */
  error: z.string().optional(),
});
export type ApiFaultSettings = z.infer<typeof apiFaultSchema>;

export const faultsSchema = z.strictObject({
  events: eventFaultsSchema.prefault({}),
  api: z.array(apiFaultSchema).default([]),
  meta: metaFaultsSchema.prefault({}),
});
export type FaultSettings = z.infer<typeof faultsSchema>;
