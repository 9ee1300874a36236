import { z } from "zod";
import type { OutgoingMessage } from "../messaging/port.ts";
import type { TemplateRecord } from "../world/records.ts";

const parameter = z.object({ type: z.string(), text: z.string().optional(), parameter_name: z.string().optional() });
const component = z.object({ type: z.string(), parameters: z.array(parameter).default([]) });

/** What the sandbox takes of Meta's `POST /{version}/{phone_number_id}/messages`: texts, templates, and the mark that a message was read. */
export const graphBodySchema = z.union([
  z.object({ messaging_product: z.literal("whatsapp"), status: z.literal("read"), message_id: z.string() }),
  z
    .object({
      messaging_product: z.literal("whatsapp"),
      status: z.undefined().optional(),
      to: z.string().max(32).optional(),
      recipient: z.string().max(160).optional(),
      text: z.object({ body: z.string().min(1).max(4096) }).optional(),
      template: z
        .object({ name: z.string(), language: z.object({ code: z.string() }), components: z.array(component).default([]) })
        .optional(),
      biz_opaque_callback_data: z.string().max(512).optional(),
    })
    .refine(({ to, recipient }) => to !== undefined || recipient !== undefined, "to is missing")
    .refine(({ text, template }) => (text === undefined) !== (template === undefined), "one of text and template is required"),
]);
export type GraphSend = Exclude<z.output<typeof graphBodySchema>, { status: "read" }>;

/** Parameters have names, or the order of the template's variables. */
export function templateOf(
  { components }: NonNullable<GraphSend["template"]>,
  { id, variables }: TemplateRecord,
): NonNullable<OutgoingMessage["template"]> {
  const parameters = components.filter(({ type }) => type.toLowerCase() === "body").flatMap((one) => one.parameters);
  const given = parameters.map(({ parameter_name: name, text }, place) => [
    name ?? variables[place]?.name ?? String(place + 1),
    text ?? "",
  ]);
  return { id, variables: Object.fromEntries(given) as Record<string, string> };
}
