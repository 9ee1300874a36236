import { z } from "zod";
import { checked } from "../api/checked.ts";
import { refused } from "../api/fault.ts";
import { outgoingBodySchema } from "../messaging/outgoing-body.ts";
import { parsePhone } from "../messaging/phone.ts";
import type { Messaging } from "../messaging/port.ts";
import { messageNotFound } from "../messaging/refusals.ts";
import { approvedTemplates } from "../messaging/templates.ts";
import type { World } from "../world/world.ts";

export interface ToolParts {
  readonly world: World;
  readonly messaging: Pick<Messaging, "send">;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: object;
  /** For an account. Throws ApiFault. */
  call(account: string, args: unknown): object;
}

/**
 * The tools that AI apps are given, over the same parts as the API. Which there are, and all of their shapes, is
 * the sandbox's choice: the document shows the limits alone.
 */
export function createTools({ world, messaging }: ToolParts): readonly Tool[] {
  return [
    tool("list_templates", "Lists the approved templates, newest first.", z.object({}), (account) => ({
      templates: approvedTemplates(world, account).map(({ id, name, language, category, variables }) => ({
        id,
        name,
        language,
        category,
        variables: variables.map(({ name, label }) => ({ name, label })),
      })),
    })),
    tool(
      "find_contact",
      "Finds the contact with a phone, in international format.",
      z.object({ phone: z.string() }),
      (account, { phone }) => {
        const contact = world.contacts.find(account, parsePhone(phone) ?? "");
        if (contact === undefined) throw refused(404, "No hay un contacto con ese teléfono.");
        const { id, name, attributes, conversationId } = contact;
        return { id, phone: contact.phone, name, attributes, conversationId };
      },
    ),
    tool("get_message", "Reads a message and its status by its id.", z.object({ id: z.string() }), (account, { id }) => {
      const message = world.messages.of(account, id.toLowerCase());
      if (message === undefined) throw messageNotFound();
      const { wamid, status, conversationId, text, errorCode } = message;
      return { id: message.id, wamid, status, conversationId, text, ...(errorCode === undefined ? {} : { errorCode }) };
    }),
    tool(
      "send_message",
      "Sends one message: free text within the 24-hour window, or a template.",
      outgoingBodySchema,
      (account, message) => {
        const { id, wamid, status, conversationId } = messaging.send(account, message, "api");
        return { id, wamid, status, conversationId };
      },
    ),
  ];
}

function tool<S extends z.ZodType>(
  name: string,
  description: string,
  schema: S,
  run: (account: string, args: z.output<S>) => object,
): Tool {
  // The draft is named by the dialect of JSON Schema that MCP takes for granted; `$schema` would only repeat it.
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: "input" });
  return { name, description, inputSchema, call: (account, args) => run(account, checked(schema, args)) };
}
