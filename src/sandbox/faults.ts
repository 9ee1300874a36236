import { z } from "zod";

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

/** Of a request: Meta, "Webhooks overview". */
export const mostUpdates = 1_000;

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

const endpoints = [
  ...["POST /messages", "GET /messages/{id}", "GET /templates", "GET /contacts", "POST /contacts"],
  ...["GET /campaigns", "GET /me", "POST /automations/{id}/runs"],
];
/**
 * `GET /messages/{id}`, as the document writes it, and Fastify's `GET /messages/:id` become the
 * same.
 */
export const endpointKey = (endpoint: string): string =>
  endpoint.replace(/(\{[^/]*\}|:[^/]*)/g, "{}");
const endpointKeys = new Set(endpoints.map(endpointKey));

const apiFaultSchema = z.strictObject({
  answer: z.literal([500, 502, 429, "hang", "reset", "malformed"]),
  endpoint: z
    .string()
    .refine(
      (endpoint) => endpointKeys.has(endpointKey(endpoint)),
      `is no endpoint of the API: ${endpoints.join(", ")}`,
    )
    .optional(),
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
