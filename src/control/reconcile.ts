import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { type AccountsView, accountsSchema, reconciledSchema, reconcilePlanSchema } from "../model/answers.ts";
import { toAnswer, type View } from "../model/view.ts";
import { type Allow, addEndpoint, disconnectSignal, time } from "./endpoint.ts";

export interface ReconcilePort {
  /** Polls messages due by `dueBy` (null: now) for some seconds. Throws `bad_request` for an account that cannot be polled. */
  reconcile(account: string | undefined, dueBy: number | null, gone: AbortSignal): Promise<View<typeof reconciledSchema>>;
  /** What `reconcile` would do; polls nothing. */
  planReconcile(account: string | undefined): Promise<View<typeof reconcilePlanSchema>>;
  /** The accounts of the settings, in their order. */
  accounts(): Promise<AccountsView["data"]>;
}

const reconcile = {
  method: "POST",
  path: "/v1/reconcile",
  name: "reconcile",
  scope: "replay",
  summary: "Polls the service for messages that are due",
  description:
    "One request takes at most five seconds. While `more` is true, repeat it with the answer's `dueBy` to continue the pass. Routes receive what it finds.",
  body: z
    .strictObject({
      account: z.string().optional().describe("Only this account."),
      dryRun: z.boolean().default(false).describe("Only return the plan."),
      dueBy: time.nullable().default(null).describe("`dueBy` of the previous answer, to continue the same pass."),
    })
    .prefault({}),
  answers: { 200: { text: "The results by account.", schema: z.union([reconciledSchema, reconcilePlanSchema]) } },
  errors: ["shutting_down"],
} as const;

const accounts = {
  method: "GET",
  path: "/v1/accounts",
  name: "listAccounts",
  scope: "read",
  summary: "The accounts, with their stops, budget and last reconciliation pass",
  description: "With several processes, `lastPass` is the last one of any process.",
  answers: { 200: { text: "The accounts.", schema: accountsSchema } },
} as const;

/** `POST /v1/reconcile` and `GET /v1/accounts`: docs/concepts/reconciliation-and-quotas.md. */
export function addReconcileRoute(app: FastifyInstance, port: ReconcilePort, allow: Allow): void {
  addEndpoint(app, allow, reconcile, async ({ body: { account, dryRun, dueBy }, reply }) =>
    dryRun
      ? toAnswer(reconcilePlanSchema, await port.planReconcile(account))
      : toAnswer(reconciledSchema, await port.reconcile(account, dueBy, disconnectSignal(reply))),
  );
  addEndpoint(app, allow, accounts, async () => toAnswer(accountsSchema, { data: await port.accounts() }));
}
