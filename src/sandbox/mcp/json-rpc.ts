import { z } from "zod";

/** Error codes of JSON-RPC 2.0, section 5.1, and the service's own for a cap ("Responses at the limit", messaging-service-api.md). */
export const rpcCodes = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  tooManyCalls: -32000,
} as const;

/** One message to the server; without `id` it is a notification. Batches are no part of MCP any more. */
export const rpcMessageSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).optional(),
});
export type RpcId = string | number | null;

export function rpcResult(id: RpcId, result: object) {
  return { jsonrpc: "2.0", id, result } as const;
}

export function rpcError(id: RpcId, code: number, message: string) {
  return { jsonrpc: "2.0", id, error: { code, message } } as const;
}
