import { z } from "zod";
import { Secret } from "../event/secret.ts";
import { durationSchema } from "../event/units.ts";
import { lineSchema, timeoutSchema } from "./line-settings.ts";
import { queueDestinationSchema, streamDestinationSchema } from "./redis-settings.ts";

/** `original`: the very bytes received; `enriched`: the same with a `relay` object added. */
export const payloadSchema = z.enum(["original", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

const reservedHeader =
  /^(host|content-length|content-type|content-encoding|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|webhook-.*|x-wamid-relay-.*)$/i;
/** Values are secrets, because `authorization` is what people put here: nothing of them is printed. */
const headersSchema = z.record(
  z
    .string()
    .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "is not a header name")
    .refine((name) => !reservedHeader.test(name), "is set by the relay itself"),
  z
    .string()
    .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "is not a header value")
    .transform((value) => new Secret(value)),
);

function hasCredentials(url: string): boolean {
  const parsed = URL.parse(url);
  return parsed !== null && (parsed.username !== "" || parsed.password !== "");
}

/** A destination that is a URL. */
export const urlDestinationSchema = lineSchema.extend({
  url: z
    .url({ protocol: /^https?$/, error: "is not an http or https URL" })
    .refine((text) => !hasCredentials(text), "holds a user or password; put them into headers (authorization)"),
  headers: headersSchema.default({}),
  /** For the whole exchange, from connecting to the last byte read. */
  timeout: timeoutSchema.prefault("15s"),
  /** Longest `Retry-After` that is honored; a longer one counts as this. `0s`: none is honored. */
  maxRetryAfter: durationSchema.refine((ms) => ms <= 86_400_000, "must be at most 24h").prefault("1h"),
  /** Loopback, private and other non-public addresses only when true. */
  allowPrivate: z.boolean().default(false),
});
export type UrlDestinationSettings = z.infer<typeof urlDestinationSchema>;

/** Where a route's deliveries go. The first key of each kind tells it: see {@link destinationKeys}. */
export const destinationSchema = z.union([urlDestinationSchema, queueDestinationSchema, streamDestinationSchema]);
export type DestinationSettings = z.infer<typeof destinationSchema>;

/** The key that each kind of destination has and no other, in the order of {@link destinationSchema}. */
export const destinationKeys = ["url", "queue", "stream"] as const;
