import { z } from "zod";

const template = z.object({ id: z.guid(), variables: z.record(z.string(), z.string()).exactOptional() });

/**
 * Body of `POST /messages` (messaging-service-api.md, "POST /messages"). Both `text` and `template`, or neither, is a
 * validation error like a missing field: the sandbox's choice, as is ignoring unknown fields.
 * Whether `to` is a phone is not asked here: that error is a text of its own.
 */
export const outgoingBodySchema = z
  .object({
    to: z.string().min(6).max(32),
    phoneNumberId: z.string().exactOptional(),
    text: z.string().min(1).max(4096).exactOptional(),
    template: template.exactOptional(),
  })
  .refine(({ text, template }) => (text === undefined) !== (template === undefined), {
    error: "Mandá exactamente uno de text y template.",
    path: ["text"],
  });
