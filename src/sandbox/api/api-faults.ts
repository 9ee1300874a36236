import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { ApiFaultSettings } from "../faults.ts";
import { capReached } from "../limits/limits.ts";
import type { Random } from "../random.ts";
import { unexpectedText } from "./error-answers.ts";
import { type ApiFault, limitsOf, refused } from "./fault.ts";
import { callerOf } from "./gate.ts";
import { createFaultPicker } from "./pick-fault.ts";

const providerText = "El proveedor rechazó el mensaje por un problema temporal. Probá de nuevo en unos minutos.";
/** Says it is JSON, and breaks off. */
const cutJson = '{"id":"019';

/**
 * Spoils answers as `faults` says. Only calls that the gate let in meet a fault, and only when their body could be read:
 * they have been counted, whatever the fault.
 */
export function addApiFaults(
  api: FastifyInstance,
  { faults, random }: { readonly faults: () => readonly ApiFaultSettings[]; readonly random: Random },
): void {
  const pick = createFaultPicker(random.fork("api-faults"));
  /** Calls whose work is being done, and what will become of the answer. */
  const spoiltLater = new WeakMap<FastifyRequest, ApiFaultSettings>();
  const hanging = new Set<FastifyReply["raw"]>();

  const hang = ({ raw }: FastifyReply): void => {
    hanging.add(raw);
    raw.once("close", () => hanging.delete(raw));
  };
  // Otherwise close() would wait for them forever.
  api.addHook("preClose", (done) => {
    for (const raw of hanging) raw.destroy();
    done();
  });

  api.addHook("preHandler", (request, reply, done) => {
    const fault = pick(faults(), request.method, request.routeOptions.url);
    if (fault === null) {
      done();
    } else if (fault.when === "after" && fault.answer !== 429) {
      spoiltLater.set(request, fault);
      done();
    } else if (fault.answer === "hang" || fault.answer === "reset") {
      reply.hijack();
      if (fault.answer === "hang") hang(reply);
      else request.raw.socket.resetAndDestroy();
    } else if (fault.answer === "malformed") {
      void reply.type("application/json; charset=utf-8").send(cutJson);
    } else {
      done(answerOf(fault, request));
    }
  });

  api.addHook("onSend", (request, reply, payload, done) => {
    const fault = spoiltLater.get(request);
    if (fault === undefined) {
      done(null, payload);
    } else if (fault.answer === "hang") {
      hang(reply);
    } else if (fault.answer === "reset") {
      request.raw.socket.resetAndDestroy();
    } else if (fault.answer === "malformed") {
      done(null, typeof payload === "string" ? payload.slice(0, payload.length / 2) : cutJson);
    } else {
      const { status, body } = answerOf(fault, request);
      reply.code(status).type("application/json; charset=utf-8");
      done(null, JSON.stringify(body));
    }
  });
}

function answerOf({ answer, error, retryAfter }: ApiFaultSettings, request: FastifyRequest): ApiFault {
  if (answer === 429) return capReached("requests", limitsOf(callerOf(request).account.plan).requests, retryAfter);
  return answer === 502 ? refused(502, error ?? providerText) : refused(500, error ?? unexpectedText);
}
