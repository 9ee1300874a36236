import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import type { Automations } from "../automations/automations.ts";
import type { Limits } from "../limits/limits.ts";
import type { AccountRecord, AutomationRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { checked } from "./checked.ts";
import { type ApiFault, refused } from "./fault.ts";

const root = "/hooks/automations";

/** The sandbox's choice: the document shows neither path nor payload. */
export function hookPath({ hookId }: Pick<AutomationRecord, "hookId">): string {
  return `${root}/${hookId}`;
}

const body = z.looseObject({ phone: z.string(), name: z.string().min(1).max(200).optional() });

export interface HookParts {
  readonly world: World;
  readonly limits: Limits;
  readonly automations: Automations;
}

/** Incoming webhooks of automations (messaging-service-api.md). The path is the secret; calls count as API calls of the account. */
export function addHookRoutes(app: FastifyInstance, { world, limits, automations }: HookParts): void {
  const behind = (request: FastifyRequest): { account: AccountRecord; automation: AutomationRecord } => {
    const { hookId } = request.params as { hookId: string };
    for (const account of world.accounts.all()) {
      const automation = world.automations.find(account.id, hookId);
      if (automation?.trigger === "incoming-webhook") return { account, automation };
    }
    throw noSuchHook();
  };
  app.post(`${root}/:hookId`, {
    // Before the body is read, so that a call is counted whatever it brings.
    onRequest(request, _reply, done) {
      limits.admit(behind(request).account, "other");
      done();
    },
    handler(request, reply) {
      const { account, automation } = behind(request);
      const { phone, name, ...rest } = checked(body, request.body);
      const run = automations.start(account.id, automation, { phone, data: textsOf(rest), ...(name === undefined ? {} : { name }) });
      reply.code(201).send({ runId: run.id });
    },
  });
}

/** The sandbox's choice: every other field is a variable of the run. */
function textsOf(fields: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]));
}

function noSuchHook(): ApiFault {
  return refused(404, "No existe ese webhook.");
}
