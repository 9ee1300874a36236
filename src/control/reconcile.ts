import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type Allow, addEndpoint, iso, time } from "./endpoint.ts";
import { disconnectSignal } from "./long-request.ts";

/** Times are unix ms. */
interface Stopped {
  readonly reason: string;
  readonly until: number | null;
}

interface AccountReconciled {
  readonly account: string;
  readonly stopped: Stopped | null;
  readonly lastsUntil: number | null;
}

export interface ReconcilePort {
  /** Polls messages due by `dueBy` (null: now) for some seconds. Throws `bad_request` for an account that cannot be polled. */
  reconcile(
    account: string | undefined,
    dueBy: number | null,
    gone: AbortSignal,
  ): Promise<{ readonly dueBy: number; readonly more: boolean; readonly accounts: readonly AccountReconciled[] }>;
  /** What `reconcile` would do; polls nothing. */
  planReconcile(account: string | undefined): Promise<{ readonly dueBy: number; readonly accounts: readonly AccountReconciled[] }>;
}

const reconcile = {
  method: "POST",
  path: "/v1/reconcile",
  name: "reconcile",
  scope: "replay",
  summary: "Asks the service about messages that are due",
  description: "For five seconds at most. While `more` is true, the same request with the answer's `dueBy` goes on with the pass.",
  body: z
    .strictObject({
      account: z.string().optional().describe("This one only."),
      dryRun: z.boolean().default(false).describe("Only say what would be asked."),
      dueBy: time.nullable().default(null).describe("Of the answer before, to go on with the same pass."),
    })
    .prefault({}),
  answers: { 200: "What came of it, by account." },
  errors: ["shutting_down"],
} as const;

/** `POST /v1/reconcile`: docs/reconcile.md. */
export function addReconcileRoute(app: FastifyInstance, port: ReconcilePort, allow: Allow): void {
  addEndpoint(app, allow, reconcile, async ({ body: { account, dryRun, dueBy }, reply }) => {
    const done = dryRun ? await port.planReconcile(account) : await port.reconcile(account, dueBy, disconnectSignal(reply));
    return { ...done, dueBy: iso(done.dueBy), accounts: done.accounts.map(present) };
  });
}

function present<T extends AccountReconciled>({ stopped, lastsUntil, ...rest }: T) {
  return { ...rest, stopped: stopped === null ? null : { ...stopped, until: iso(stopped.until) }, lastsUntil: iso(lastsUntil) };
}
