import { z } from "zod";
import { maxIdLength } from "../event/ids.ts";
import type { Registration } from "./port.ts";
import { badRequest } from "./queries.ts";

// Half of a surrogate pair would come back from the store as another text, and contradict itself.
const text = z
  .string()
  .min(1)
  .max(maxIdLength)
  .refine((value) => value.isWellFormed(), "is not well-formed text");

const registration = z.strictObject({
  account: z.string().min(1),
  wamid: text,
  id: text.optional(),
  reference: text.optional(),
  conversationId: text.optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  sentAt: z.iso
    .datetime({ offset: true })
    .transform((iso) => Date.parse(iso))
    .optional(),
});

/** One message, or up to 1,000. */
export const trackBody = z.union([registration.transform((one) => [one]), z.array(registration).min(1).max(1000)]);

export type ReadLine =
  | { readonly registration: Registration; readonly wamid: string }
  | { readonly wamid: string | null; readonly error: string; readonly details?: unknown };

/** One line of NDJSON. `wamid` is also given of a faulty line that has one. */
export function readRegistration(line: string): ReadLine {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { wamid: null, error: "is not valid JSON" };
  }
  const parsed = registration.safeParse(value);
  if (parsed.success) return { registration: parsed.data, wamid: parsed.data.wamid };
  const { wamid } = (value ?? {}) as { wamid?: unknown };
  const { message, details } = badRequest(parsed.error);
  return { wamid: typeof wamid === "string" ? wamid : null, error: message, details };
}
