import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type AuditFilter, type AuditProgress, type AuditReport, auditProgressSchema, auditSchema } from "../model/audit.ts";
import { toAnswer } from "../model/view.ts";
import { type Allow, addEndpoint, time } from "./endpoint.ts";

export interface AuditPort {
  /**
   * Starts an audit, or joins one in flight with the same filter, and waits up to `waitMs` for its end. A report goes to
   * the callers waiting for it; a later call starts another audit.
   */
  audit(filter: AuditFilter, waitMs: number): Promise<AuditReport | AuditProgress>;
}

const audit = {
  method: "GET",
  path: "/v1/audit",
  name: "audit",
  scope: "read",
  summary: "Whether everything that was received is accounted for",
  description: "202 with the progress when the audit takes longer than `wait`. Repeat the request to join the same audit.",
  query: z.strictObject({
    from: time.optional().describe("Received at or after this time."),
    to: time.optional().describe("Received before this time."),
    source: z.string().optional().describe("Only from this source."),
    wait: z.coerce.number().min(0).max(30).default(10).describe("Seconds to wait for the report."),
  }),
  answers: {
    200: { text: "The report.", schema: auditSchema },
    202: { text: "The progress. Repeat the request with the same query to wait for the same audit.", schema: auditProgressSchema },
  },
  errors: ["not_found"],
} as const;

/** `GET /v1/audit`: docs/how-to/explain-an-event.md. */
export function addAuditRoute(app: FastifyInstance, port: AuditPort, allow: Allow): void {
  addEndpoint(app, allow, audit, async ({ query: { wait, ...filter }, reply }) => {
    const answer = await port.audit(filter, wait * 1000);
    if ("balanced" in answer) return toAnswer(auditSchema, answer);
    reply.code(202);
    return toAnswer(auditProgressSchema, answer);
  });
}
