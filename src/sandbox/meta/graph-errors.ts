import { createHash } from "node:crypto";
import { ApiFault } from "../api/fault.ts";
import type { Json } from "./update.ts";

/** An error of the Graph API. */
export class GraphFault extends Error {
  override readonly name = "GraphFault";
  readonly status: number;
  readonly code: number;
  readonly details: string;

  constructor(status: number, code: number, title: string, details = title) {
    super(`(#${code}) ${title}`);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** The service's refusals as the Graph API answers them. Null: it is none. */
export function graphFaultOf(error: unknown): GraphFault | null {
  if (error instanceof GraphFault) return error;
  if (!(error instanceof ApiFault)) return null;
  const { status, body } = error;
  const text = typeof body["error"] === "string" ? body["error"] : JSON.stringify(body["error"]);
  // The provider's code is in the text.
  const code = /\((\d{6})\)/.exec(text)?.[1];
  if (code === "131016") return new GraphFault(503, 131016, "Service unavailable", text);
  if (code !== undefined) return new GraphFault(400, Number(code), "Business eligibility payment issue", text);
  switch (status) {
    case 401:
      return new GraphFault(401, 190, "Invalid OAuth access token.", text);
    case 402:
      return new GraphFault(403, 10, "Permission denied", text);
    case 404:
      return new GraphFault(404, 132001, "Template name does not exist in the translation", text);
    case 429:
      return new GraphFault(429, 130429, "Rate limit hit", text);
    case 400:
    case 409:
      return new GraphFault(400, 100, "Invalid parameter", text);
    default:
      return new GraphFault(500, 131000, "Something went wrong", text);
  }
}

export function graphErrorBody({ message, code, details }: GraphFault): Json {
  const trace = createHash("sha256").update(`${code} ${details}`).digest("base64url").slice(0, 22);
  const data = { messaging_product: "whatsapp", details };
  return { error: { message, type: "OAuthException", code, error_data: data, fbtrace_id: trace } };
}
