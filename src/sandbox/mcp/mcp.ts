import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Clock } from "../../model/clock.ts";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { ApiFault, checked, limitsOf, refused } from "../api/fault.ts";
import { createMinuteWindow, type MinuteWindow } from "../limits/limits.ts";
import type { Messaging } from "../messaging/messaging.ts";
import { outgoingBodySchema } from "../messaging/refusals.ts";
import { approvedTemplates } from "../messaging/templates.ts";
import type { AccountRecord, AppRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";

/** Newest first. */
const revisions = ["2025-11-25", "2025-06-18", "2025-03-26"] as const;

/** JSON-RPC 2.0, 5.1, and the service's own for a cap ("Responses at the limit"). */
const codes = { parse: -32700, invalidRequest: -32600, methodNotFound: -32601, invalidParams: -32602, tooManyCalls: -32000 } as const;

/** Without `id` it is a notification. */
const messageSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).default({}),
});

interface McpParts {
  readonly world: World;
  readonly messaging: Pick<Messaging, "send">;
  readonly clock: Pick<Clock, "now">;
  readonly isUnlimited: boolean;
}

interface McpAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: object | null;
}

function createMcp({ world, messaging, clock, isUnlimited }: McpParts): (from: AccountRecord, app: AppRecord, body: Buffer) => McpAnswer {
  const windows = new Map<string, MinuteWindow>();
  /** The sandbox's choice: the document shows the limits alone. */
  const tools = [
    {
      name: "list_templates",
      description: "Lists the approved templates, newest first.",
      schema: z.object({}),
      call: (account: string) => ({
        templates: approvedTemplates(world, account).map(({ id, name, language, category, variables }) => ({
          id,
          name,
          language,
          category,
          variables: variables.map(({ name: key, label }) => ({ name: key, label })),
        })),
      }),
    },
    {
      name: "send_message",
      description: "Sends one message: free text within the 24-hour window, or a template.",
      schema: outgoingBodySchema,
      call(account: string, args: unknown) {
        const { id, wamid, status, conversationId } = messaging.send(account, checked(outgoingBodySchema, args), "api");
        return { id, wamid, status, conversationId };
      },
    },
  ];

  const hasRoom = (app: AppRecord, most: number): boolean => {
    const window = windows.get(app.id) ?? createMinuteWindow();
    windows.set(app.id, window);
    const now = clock.now();
    if (!isUnlimited && window.count(now) >= most) return false;
    window.add(now);
    return true;
  };
  const callTool = (account: AccountRecord, app: AppRecord, { name, arguments: args = {} }: { name?: unknown; arguments?: unknown }) => {
    const { toolCalls } = limitsOf(account.plan);
    // "MCP tool calls per minute, per app": whatever comes of them.
    if (!hasRoom(app, toolCalls)) {
      return {
        error: { code: codes.tooManyCalls, message: `La app superó el límite de ${toolCalls} llamadas a herramientas por minuto.` },
      };
    }
    const tool = tools.find((one) => one.name === name);
    if (tool === undefined) return { error: { code: codes.invalidParams, message: `No existe la herramienta ${String(name)}.` } };
    try {
      const found = tool.call(account.id, args);
      return { result: { content: [{ type: "text", text: JSON.stringify(found) }], structuredContent: found, isError: false } };
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      // As MCP wants it: the model may correct itself.
      return { result: { content: [{ type: "text", text: JSON.stringify(error.body) }], isError: true } };
    }
  };
  return (account, app, body) => {
    const read = parseWithin(body, bodyLimits);
    const message = messageSchema.safeParse("value" in read ? read.value : undefined);
    if (!message.success) {
      const code = "value" in read ? codes.invalidRequest : codes.parse;
      return { status: 400, body: { jsonrpc: "2.0", id: null, error: { code, message: "El cuerpo no es un mensaje JSON-RPC 2.0." } } };
    }
    const { id, method, params } = message.data;
    if (id === undefined) return { status: 202, body: null };
    const ok = (outcome: object): McpAnswer => ({ status: 200, body: { jsonrpc: "2.0", id, ...outcome } });
    switch (method) {
      case "initialize":
        return ok({
          result: {
            protocolVersion: revisions.find((revision) => revision === params["protocolVersion"]) ?? revisions[0],
            capabilities: { tools: {} },
            serverInfo: { name: "wamid-relay-sandbox", version: "1" },
          },
        });
      case "ping":
        return ok({ result: {} });
      case "tools/list":
        return ok({
          result: { tools: tools.map(({ name, description, schema }) => ({ name, description, inputSchema: jsonSchemaOf(schema) })) },
        });
      case "tools/call": {
        const outcome = callTool(account, app, params);
        return outcome.error?.code === codes.tooManyCalls ? { ...ok(outcome), status: 429, headers: { "retry-after": "60" } } : ok(outcome);
      }
      default:
        return ok({ error: { code: codes.methodNotFound, message: `No existe el método ${method}.` } });
    }
  };
}

/** `$schema` would only repeat MCP's default dialect. */
function jsonSchemaOf(schema: z.ZodType): object {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: "input" });
  return inputSchema;
}

/** The sandbox's choice. */
const mcpPath = "/mcp";

/** MCP's "Streamable HTTP" without streams. The sandbox's choice: an app's token is its bearer key ("Authentication", 7). */
export function addMcpRoutes(app: FastifyInstance, parts: McpParts): void {
  const { world } = parts;
  const answer = createMcp(parts);
  const callerOf = (request: FastifyRequest): { account: AccountRecord; app: AppRecord } => {
    const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
    for (const account of world.accounts.all()) {
      const found = world.apps.find(account.id, token);
      if (found !== undefined) return { account, app: found };
    }
    const { status, body } = refused(401, "Falta el token de la app, o no es válido.");
    throw new ApiFault(status, body, { "www-authenticate": "Bearer" });
  };
  // JSON that cannot be read is JSON-RPC's matter here.
  app.register((mcp, _options, done) => {
    mcp.removeAllContentTypeParsers();
    mcp.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, parsed) => parsed(null, body));
    mcp.post(mcpPath, (request, reply) => {
      const caller = callerOf(request);
      const {
        status,
        headers = {},
        body,
      } = answer(caller.account, caller.app, request.body instanceof Buffer ? request.body : Buffer.alloc(0));
      reply.code(status).headers(headers);
      return body === null ? reply.send() : reply.send(body);
    });
    for (const method of ["GET", "DELETE"] as const) {
      mcp.route({
        method,
        url: mcpPath,
        handler: () => {
          throw new ApiFault(405, { error: "El servidor MCP solo recibe POST.", cause: null }, { allow: "POST" });
        },
      });
    }
    done();
  });
}
