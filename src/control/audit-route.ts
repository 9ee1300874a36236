import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { AuditReport } from "../event/audit-report.ts";
import type { AuditPort, AuditUnderWay } from "./audit-port.ts";
import { iso } from "./present.ts";
import { parse, time } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";

const auditQuery = z.strictObject({
  from: time.optional(),
  to: time.optional(),
  source: z.string().optional(),
  /** Seconds to wait for the report. */
  wait: z.coerce.number().min(0).max(30).default(10),
});

/** `GET /v1/audit`: 200 with the report, or 202 with how far it is; asked again, the same audit goes on. docs/audit.md. */
export function addAuditRoute(app: FastifyInstance, port: AuditPort, onRequest: OnRequest): void {
  app.get("/v1/audit", { onRequest }, async (request, reply) => {
    const { wait, ...filter } = parse(auditQuery, request.query);
    const answer = await port.audit(filter, wait * 1000);
    return isReport(answer) ? { ...answer, at: iso(answer.at) } : reply.code(202).send(answer);
  });
}

function isReport(answer: AuditReport | AuditUnderWay): answer is AuditReport {
  return "balanced" in answer;
}
