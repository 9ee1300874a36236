import { z } from "zod";
import { lineLimits, parseWithin } from "../event/bounded-json.ts";
import { maxIdLength } from "../event/ids.ts";
import { metadataSchema } from "../event/metadata.ts";
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
  metadata: metadataSchema.optional(),
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
  const read = parseWithin(line, lineLimits);
  if ("fault" in read) return { wamid: null, error: read.fault };
  const { value } = read;
  const parsed = registration.safeParse(value);
  if (parsed.success) return { registration: parsed.data, wamid: parsed.data.wamid };
  const { wamid } = (value ?? {}) as { wamid?: unknown };
  const { message, details } = badRequest(parsed.error);
  return { wamid: typeof wamid === "string" ? wamid : null, error: message, details };
}
