import type { Clock } from "../../model/clock.ts";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { ApiFault, limitsOf } from "../api/fault.ts";
import type { AccountRecord, AppRecord } from "../world/records.ts";
import { type RpcId, rpcCodes, rpcError, rpcMessageSchema, rpcResult } from "./json-rpc.ts";
import { createToolCallCap } from "./tool-call-cap.ts";
import { createTools, type ToolParts } from "./tools.ts";

/** Revisions of MCP that this small server speaks, newest first; of what they differ in, it has nothing. */
const revisions = ["2025-11-25", "2025-06-18", "2025-03-26"] as const;

export interface McpParts extends ToolParts {
  readonly clock: Pick<Clock, "now">;
  /** No cap on tool calls. */
  readonly isUnlimited: boolean;
}

export interface McpAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null: no body. */
  readonly body: object | null;
}

/** The service's MCP server: answers one JSON-RPC message of an app. */
export function createMcp(parts: McpParts): (account: AccountRecord, app: AppRecord, body: Buffer) => McpAnswer {
  const tools = createTools(parts);
  const hasRoom = createToolCallCap(parts.clock);

  const callTool = (account: AccountRecord, app: AppRecord, id: RpcId, params: Readonly<Record<string, unknown>>): McpAnswer => {
    // Only calls of tools count, whatever comes of them: the cap is on "MCP tool calls".
    if (!parts.isUnlimited && !hasRoom(app, account.plan)) {
      const text = `La app superó el límite de ${limitsOf(account.plan).toolCalls} llamadas a herramientas por minuto.`;
      return { status: 429, headers: { "retry-after": "60" }, body: rpcError(id, rpcCodes.tooManyCalls, text) };
    }
    const tool = tools.find(({ name }) => name === params["name"]);
    if (tool === undefined) return ok(rpcError(id, rpcCodes.invalidParams, `No existe la herramienta ${String(params["name"])}.`));
    try {
      const found = tool.call(account.id, params["arguments"] ?? {});
      return ok(rpcResult(id, { content: [{ type: "text", text: JSON.stringify(found) }], structuredContent: found, isError: false }));
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      // As MCP wants it: the model gets the error and may correct itself.
      return ok(rpcResult(id, { content: [{ type: "text", text: JSON.stringify(error.body) }], isError: true }));
    }
  };
  return (account, app, body) => {
    const given = parsed(body);
    const message = rpcMessageSchema.safeParse(given);
    if (!message.success) {
      const code = given === undefined ? rpcCodes.parse : rpcCodes.invalidRequest;
      return { status: 400, body: rpcError(null, code, "El cuerpo no es un mensaje JSON-RPC 2.0.") };
    }
    const { id, method, params = {} } = message.data;
    if (id === undefined) return { status: 202, body: null };
    switch (method) {
      case "initialize":
        return ok(rpcResult(id, introduction(params["protocolVersion"])));
      case "ping":
        return ok(rpcResult(id, {}));
      case "tools/list":
        return ok(rpcResult(id, { tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })) }));
      case "tools/call":
        return callTool(account, app, id, params);
      default:
        return ok(rpcError(id, rpcCodes.methodNotFound, `No existe el método ${method}.`));
    }
  };
}

function introduction(asked: unknown): object {
  return {
    protocolVersion: revisions.find((revision) => revision === asked) ?? revisions[0],
    capabilities: { tools: {} },
    serverInfo: { name: "wamid-relay-sandbox", version: "1" },
  };
}

function ok(body: object): McpAnswer {
  return { status: 200, body };
}

/** Undefined for a body that is no JSON. */
function parsed(body: Buffer): unknown {
  const read = parseWithin(body, bodyLimits);
  return "value" in read ? read.value : undefined;
}
