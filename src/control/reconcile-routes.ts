import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { goneSignal } from "./gone-signal.ts";
import { iso } from "./present.ts";
import { parse } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";

/** Times are unix ms. */
interface Stopped {
  readonly reason: string;
  readonly until: number | null;
}

export interface AccountReconciled {
  readonly account: string;
  readonly stopped: Stopped | null;
  readonly lastsUntil: number | null;
}

/** What the control API asks of reconciliation. */
export interface ReconcilePort {
  /** Asks about what was due by `dueBy` (null: now) for some seconds. Throws `bad_request` for an account that cannot be asked. */
  reconcile(
    account: string | undefined,
    dueBy: number | null,
    gone: AbortSignal,
  ): Promise<{ readonly dueBy: number; readonly more: boolean; readonly accounts: readonly AccountReconciled[] }>;
  /** What `reconcile` would do: asks nothing. */
  planReconcile(account: string | undefined): Promise<{ readonly dueBy: number; readonly accounts: readonly AccountReconciled[] }>;
}

const reconcileBody = z.strictObject({
  account: z.string().optional(),
  /** Only say what would be asked. */
  dryRun: z.boolean().default(false),
  /** `dueBy` of the answer before, to go on with the same pass. */
  dueBy: z.iso
    .datetime({ offset: true })
    .transform((text) => Date.parse(text))
    .nullable()
    .default(null),
});

/** `POST /v1/reconcile`: docs/reconcile.md. */
export function addReconcileRoute(app: FastifyInstance, port: ReconcilePort, onRequest: OnRequest): void {
  app.post("/v1/reconcile", { onRequest }, async (request, reply) => {
    const { account, dryRun, dueBy } = parse(reconcileBody, request.body ?? {});
    const done = dryRun ? await port.planReconcile(account) : await port.reconcile(account, dueBy, goneSignal(reply));
    return { ...done, dueBy: iso(done.dueBy), accounts: done.accounts.map(present) };
  });
}

function present<T extends AccountReconciled>({ stopped, lastsUntil, ...rest }: T) {
  return { ...rest, stopped: stopped === null ? null : { ...stopped, until: iso(stopped.until) }, lastsUntil: iso(lastsUntil) };
}
