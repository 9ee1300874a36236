import type { FastifyInstance } from "fastify";
import { RelayError } from "../event/errors.ts";
import type { AuditPort } from "./audit-port.ts";
import { addAuditRoute } from "./audit-route.ts";
import { type Authorize, BadToken, type BadTokenHook } from "./auth.ts";
import type { Allow } from "./endpoint.ts";
import type { ExplainPort } from "./explain-port.ts";
import { addExplainRoute } from "./explain-route.ts";
import type { ListenPort } from "./listen-port.ts";
import { addListenRoutes } from "./listen-routes.ts";
import { addOpenApiRoute } from "./openapi-route.ts";
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
  readonly badToken: BadTokenHook;
}

/** The control API under `/v1`. */
export function addControlRoutes(
  app: FastifyInstance,
  { control, sending, reconcile, audit, explain, listening, secretUses, authorize, badToken }: ControlParts,
): void {
  const allow: Allow = (scope) => async (request) => {
    try {
      authorize()(request.headers.authorization, scope);
    } catch (error) {
      const retryAfterMs = error instanceof BadToken ? badToken(error.reason, request.raw) : null;
      if (retryAfterMs === null) throw error;
      throw new RelayError("too_many_bad_tokens", "too many bad tokens from this address", undefined, { retryAfterMs });
    }
  };
  // First, to see the others come.
  addOpenApiRoute(app, listening.version, allow);
  addReadingRoutes(app, control, allow);
  addSecretsRoute(app, secretUses, allow);
  addWritingRoutes(app, control, allow);
  addSendingRoutes(app, sending, allow);
  addAuditRoute(app, audit, allow);
  addExplainRoute(app, explain, allow);
  addReconcileRoute(app, reconcile, allow);
  addListenRoutes(app, listening, allow);
}
