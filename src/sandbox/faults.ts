import { z } from "zod";
import { mostUpdates } from "./meta/request-body.ts";

const share = z.number().min(0).max(1);
const ms = z.number().int().min(0);

/** Faults of the events' way to webhook URLs: each a share of all posts, from 0 to 1. */
export const eventFaultsSchema = z.strictObject({
  /** Posted a second time soon after. */
  duplicate: share.default(0),
  /** Held back so that events after it overtake it. */
  reorder: share.default(0),
  /** Held back by `delayMs`. */
  delay: share.default(0),
  delayMs: ms.default(5_000),
  drop: share.default(0),
  /** Posted with its data truncated, whatever its size. */
  truncate: share.default(0),
  wrongSignature: share.default(0),
  /** Posted once as a body that is no envelope, rightly signed, beside the right one. */
  malformed: share.default(0),
});
export type EventFaults = z.infer<typeof eventFaultsSchema>;

/** What Meta's webhooks do beside that, with the format `meta`. Shares are of messages, of people for `username`. */
export const metaFaultsSchema = z.strictObject({
  /** A request is posted once it has so many updates, or `batchMs` after its first. */
  batch: z.number().int().min(1).max(mostUpdates).default(1),
  batchMs: ms.default(1_000),
  /** `delivered` is not reported when `read` follows. */
  skip: share.default(0),
  /** The first status is posted before the send is answered. */
  early: share.default(0),
  /** The message went to a group of three: each status is reported once for each. */
  group: share.default(0),
  /** The person has a username, and no phone number is reported. */
  username: share.default(0),
  /** A call, with its events and statuses, is reported beside `sent`. */
  call: share.default(0),
  /** An unknown key is in the status, and an unknown field is beside it. */
  unknown: share.default(0),
});
export type MetaFaults = z.infer<typeof metaFaultsSchema>;

/** What a call to the API meets instead of its answer. */
export const apiFaultSchema = z.strictObject({
  answer: z.union([z.literal(500), z.literal(502), z.literal(429), z.literal("hang"), z.literal("reset"), z.literal("malformed")]),
  /** Only this endpoint, as `POST /messages` or `GET /messages/{id}`; not given: all. */
  endpoint: z.string().optional(),
  /** Whether the work is done before the answer is spoilt: a sender cannot know. 429 is always before. */
  when: z.enum(["before", "after"]).default("before"),
  /** The next so many calls; not given: `share` of all. */
  times: z.number().int().min(1).optional(),
  share: share.default(1),
  /** For 429: the Retry-After header in seconds. */
  retryAfter: z.number().int().min(0).default(60),
  /** For 500 and 502: the text of the error. */
  error: z.string().optional(),
});
export type ApiFaultSettings = z.infer<typeof apiFaultSchema>;

export const faultsSchema = z.strictObject({
  events: eventFaultsSchema.prefault({}),
  api: z.array(apiFaultSchema).default([]),
  meta: metaFaultsSchema.prefault({}),
});
export type FaultSettings = z.infer<typeof faultsSchema>;

export interface FaultBox {
  get(): FaultSettings;
  set(faults: FaultSettings): void;
}
