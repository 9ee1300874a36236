import { z } from "zod";
import type { Clock } from "../model/clock.ts";
import type { ObservedPost } from "./events/poster.ts";
import { faultsSchema } from "./faults.ts";
import type { Happening } from "./happenings.ts";
import { signingSchema } from "./signing.ts";
import { planNames, usualMessages } from "./world.ts";

export const webhookUrl = z.url({ protocol: /^https?$/, error: "is not an http or https URL" });
export const eventKinds = z.array(z.string().min(1).max(128)).min(1);
const keyText = z
  .string()
  .regex(/^[A-Za-z0-9._~+/=-]{8,200}$/, "must be 8 to 200 letters, digits or . _ ~ + / = -");

/**
 * A webhook URL to set up. `events` as `message.status`, `message.*` or `*`; without `secret` the
 * sandbox's own signs.
 */
export const webhookOptionsSchema = z.strictObject({
  url: webhookUrl,
  events: eventKinds.default(["*"]),
  secret: z.string().min(1).optional(),
  signature: signingSchema.optional(),
  verifyToken: z.string().min(1).optional(),
});

export type WebhookOptions = z.output<typeof webhookOptionsSchema>;

export const sandboxOptionsSchema = z.strictObject({
  format: z.enum(["standard", "meta"]).default("standard"),
  port: z.number().int().min(0).max(65535).default(0),
  /** `/sandbox` has no key: everybody who reaches this address may do anything with the sandbox. */
  host: z.string().min(1).default("127.0.0.1"),
  plan: z.enum(planNames).optional(),
  speed: z.number().positive().max(1e6).default(1),
  seed: z.union([z.string(), z.number()]).optional(),
  isUnlimited: z.boolean().default(false),
  keepMessages: z.number().int().min(1).default(usualMessages),
  faults: faultsSchema.prefault({}),
  webhooks: z.array(webhookOptionsSchema).default([]),
  service: z
    .string()
    .regex(
      /^[a-z][a-z0-9-]{0,31}$/,
      "must be a lower-case letter, then letters, digits and hyphens",
    )
    .default("acme"),
  key: keyText.optional(),
  secret: z.string().min(1).optional(),
  verifyToken: z.string().min(1).optional(),
  phoneNumberIds: z.array(z.string().regex(/^[0-9]{1,32}$/, "must be digits")).default([]),
  file: z.string().min(1).optional(),
});
export interface SandboxOptions extends z.input<typeof sandboxOptionsSchema> {
  readonly clock?: Clock;
  readonly onHappening?: (happening: Happening) => void;
  readonly onPost?: (post: ObservedPost) => void;
}
