import type { FastifyInstance, FastifyRequest } from "fastify";
import { createMcp, type McpParts } from "../mcp/mcp.ts";
import type { AccountRecord, AppRecord } from "../world/records.ts";
import { ApiFault, refused } from "./fault.ts";

/** Where AI apps connect: the sandbox's choice. */
export const mcpPath = "/mcp";

/**
 * The MCP server, over its "Streamable HTTP" without streams. An app's token is its bearer key: the sandbox's choice, as
 * "details of its auth" are not shown (messaging-service-api.md, "Authentication", 7). Calls are no API calls.
 */
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
  // In a context of its own: JSON that cannot be read is JSON-RPC's matter here.
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
