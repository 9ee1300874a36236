import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Caller, Limits } from "../limits/limits.ts";

/** The API root, below which all keys and limits hold ("Conventions", messaging-service-api.md). */
export const apiRoot = "/api/v1";

/** Meta's path for sends. Only the format `meta` has it. */
export const graphMessages = "/:version(^v[0-9]+[.][0-9]+$)/:phoneNumberId/messages";
const sendPaths: readonly unknown[] = [`${apiRoot}/messages`, graphMessages];

/** Who calls: the account and the key that the gate let in. To be asked inside the API's routes only. */
export function callerOf(request: FastifyRequest): Caller {
  const caller = request.getDecorator<Caller | null>("caller");
  if (caller === null) throw new Error("no caller: callerOf is for routes behind the gate");
  return caller;
}

/**
 * Every request under `api`, unknown paths included, must bring a valid key and find room under its account's limits;
 * otherwise it ends here with the ApiFault that `limits` throws. One that comes past has been counted.
 */
export function addGate(api: FastifyInstance, limits: Limits): void {
  api.decorateRequest("caller", null);
  api.addHook("onRequest", (request, _reply, done) => {
    const caller = letIn(limits, request);
    request.setDecorator("caller", caller);
    done();
  });
}

/** Also for what Fastify refuses before it looks for a route. */
export function letIn(limits: Limits, request: FastifyRequest): Caller {
  const caller = limits.authenticate(request.headers.authorization, request.ip);
  limits.admit(caller.account, isSend(request) ? "message" : "other");
  return caller;
}

/** Only what reaches an endpoint for sends itself counts against the cap of messages. */
function isSend(request: FastifyRequest): boolean {
  return request.method === "POST" && sendPaths.includes(request.routeOptions.url);
}
