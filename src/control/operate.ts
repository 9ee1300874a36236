import type { FastifyInstance } from "fastify";

export interface OperateParts {
  /** Neither `alarms` nor `stops` make it less ready. */
  readonly health: () => { readonly ready: boolean; readonly alarms: readonly unknown[]; readonly stops: readonly unknown[] };
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
}

/** The pages for operators and orchestrators: no token, and nothing private in them. */
export function addOperateRoutes(app: FastifyInstance, { health, metrics }: OperateParts): void {
  app.get("/healthz", async () => ({ status: "ok" }));

  app.get("/readyz", async (_request, reply) => {
    const report = health();
    return reply.code(report.ready ? 200 : 503).send(report);
  });

  app.get("/metrics", async (_request, reply) => reply.header("content-type", metrics.contentType).send(await metrics.text()));
}
