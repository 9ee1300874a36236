import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { bodyLimits, parseWithin } from "../model/json.ts";
import { ApiFault, checked, refused } from "./api/fault.ts";
import {
  approvedTemplates,
  outgoingBodySchema,
  receiptOf,
  templateView,
} from "./messaging/messaging.ts";
import type { Service } from "./service.ts";
import { type AppRecord, accountOf, plans } from "./world.ts";

const mcpPath = "/mcp";

/** Newest first. */
const revisions = ["2025-11-25", "2025-06-18", "2025-03-26"] as const;

/** JSON-RPC 2.0, 5.1, and the service's own for a cap ("Responses at the limit"). */
const codes = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  tooManyCalls: -32000,
} as const;

/** Without `id` it is a notification. */
const messageSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).default({}),
});

interface Outcome {
  readonly result?: object;
  readonly error?: { readonly code: number; readonly message: string };
}

function createTools({ world, messaging }: Service) {
  return [
    {
      name: "list_templates",
      description: "Lists the approved templates, newest first.",
      schema: z.object({}),
      call: (account: string): object => ({
        templates: approvedTemplates(world, account).map(templateView),
      }),
    },
    {
      name: "send_message",
      description: "Sends one message: free text within the 24-hour window, or a template.",
      schema: outgoingBodySchema,
      call: (account: string, args: unknown) =>
        receiptOf(messaging.send(account, checked(outgoingBodySchema, args), "api")),
    },
  ];
}

export function addMcpRoutes(app: FastifyInstance, service: Service): void {
  const { world, limits } = service;
  const tools = createTools(service);

  const callerOf = ({ headers }: FastifyRequest): AppRecord => {
    const found = world.apps.findAnywhere(
      /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1] ?? "",
    );
    if (found !== undefined) return found;
    throw refused(401, "Falta el token de la app, o no es válido.", {
      "www-authenticate": "Bearer",
    });
  };
  const callTool = (
    app: AppRecord,
    { name, arguments: args = {} }: { name?: unknown; arguments?: unknown },
  ): Outcome => {
    const account = accountOf(world, app.account);
    if (!limits.admitToolCall(account, app.id)) {
      const message = `La app superó el límite de ${plans[account.plan].toolCalls} llamadas a herramientas por minuto.`;
      return { error: { code: codes.tooManyCalls, message } };
    }
    const tool = tools.find((one) => one.name === name);
    if (tool === undefined)
      return {
        error: { code: codes.invalidParams, message: `No existe la herramienta ${String(name)}.` },
      };
    try {
      const found = tool.call(account.id, args);
      return {
        result: {
          content: [{ type: "text", text: JSON.stringify(found) }],
          structuredContent: found,
          isError: false,
        },
      };
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      // As MCP wants it: the model may correct itself.
      return {
        result: { content: [{ type: "text", text: JSON.stringify(error.body) }], isError: true },
      };
    }
  };
  const outcomeOf = (
    caller: AppRecord,
    method: string,
    params: Record<string, unknown>,
  ): Outcome => {
    switch (method) {
      case "initialize": {
        const protocolVersion =
          revisions.find((revision) => revision === params["protocolVersion"]) ?? revisions[0];
        const serverInfo = { name: "wamid-relay-sandbox", version: "1" };
        return { result: { protocolVersion, capabilities: { tools: {} }, serverInfo } };
      }
      case "ping":
        return { result: {} };
      case "tools/list":
        return {
          result: {
            tools: tools.map(({ name, description, schema }) => ({
              name,
              description,
              inputSchema: z.toJSONSchema(schema, { io: "input" }),
            })),
          },
        };
      case "tools/call":
        return callTool(caller, params);
      default:
        return { error: { code: codes.methodNotFound, message: `No existe el método ${method}.` } };
    }
  };
  // JSON that cannot be read is JSON-RPC's matter here.
  app.register(async (mcp) => {
    mcp.removeAllContentTypeParsers();
    mcp.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, parsed) =>
      parsed(null, body),
    );
    mcp.post(mcpPath, (request, reply) => {
      const caller = callerOf(request);
      const read = parseWithin((request.body as Buffer | undefined) ?? Buffer.alloc(0), bodyLimits);
      const message = messageSchema.safeParse("value" in read ? read.value : undefined);
      if (!message.success) {
        const code = "value" in read ? codes.invalidRequest : codes.parse;
        const error = { code, message: "El cuerpo no es un mensaje JSON-RPC 2.0." };
        return reply.code(400).send({ jsonrpc: "2.0", id: null, error });
      }
      const { id, method, params } = message.data;
      if (id === undefined) return reply.code(202).send();
      const outcome = outcomeOf(caller, method, params);
      if (outcome.error?.code === codes.tooManyCalls) reply.code(429).header("retry-after", "60");
      return reply.send({ jsonrpc: "2.0", id, ...outcome });
    });
    mcp.route({
      method: ["GET", "DELETE"],
      url: mcpPath,
      handler() {
        throw refused(405, "El servidor MCP solo recibe POST.", { allow: "POST" });
      },
    });
  });
}
