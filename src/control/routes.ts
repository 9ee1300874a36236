import type { FastifyInstance, FastifyRequest } from "fastify";
import type { AuditPort } from "./audit-port.ts";
import { addAuditRoute } from "./audit-route.ts";
import type { Authorize } from "./auth.ts";
import type { ExplainPort } from "./explain-port.ts";
import { addExplainRoute } from "./explain-route.ts";
import type { ListenPort } from "./listen-port.ts";
import { addListenRoutes } from "./listen-routes.ts";
import type { Control } from "./port.ts";
import { addReadingRoutes } from "./reading-routes.ts";
import { addReconcileRoute, type ReconcilePort } from "./reconcile-routes.ts";
import { addSecretsRoute, type SecretUse } from "./secrets-route.ts";
import type { SendingPort } from "./sending-port.ts";
import { addSendingRoutes } from "./sending-routes.ts";
import { addWritingRoutes } from "./writing-routes.ts";

export interface ControlParts {
  readonly control: Control;
  readonly sending: SendingPort;
  readonly reconcile: ReconcilePort;
  readonly audit: AuditPort;
  readonly explain: ExplainPort;
  readonly listening: ListenPort;
  readonly secretUses: () => Promise<readonly SecretUse[]>;
  readonly authorize: () => Authorize;
}

/** The control API under `/v1`. */
export function addControlRoutes(
  app: FastifyInstance,
  { control, sending, reconcile, audit, explain, listening, secretUses, authorize }: ControlParts,
): void {
  const allow = (scope: string) => async (request: FastifyRequest) => {
    authorize()(request.headers.authorization, scope);
  };
  addReadingRoutes(app, control, allow("read"));
  addSecretsRoute(app, secretUses, allow("read"));
  addWritingRoutes(app, control, { replay: allow("replay"), track: allow("track") });
  addSendingRoutes(app, sending, allow("send"));
  addAuditRoute(app, audit, allow("read"));
  addExplainRoute(app, explain, allow("read"));
  addReconcileRoute(app, reconcile, allow("replay"));
  addListenRoutes(app, listening, allow("listen"));
}
