import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { type ApiFaultSettings, endpointKey } from "../faults.ts";
import type { Random } from "../ids.ts";
import { capReached, type Limits } from "../limits.ts";
import type { Service } from "../service.ts";
import { type AccountRecord, plans } from "../world.ts";
import { type ApiFault, answerTo, invalid, noSuchPath, refused, unexpectedText } from "./fault.ts";

const apiRoot = "/api/v1";

export const graphMessages = "/:version(^v[0-9]+[.][0-9]+$)/:phoneNumberId/messages";
const sendPaths: readonly unknown[] = [`${apiRoot}/messages`, graphMessages];
const json = "application/json; charset=utf-8";

export function callerOf(request: FastifyRequest): AccountRecord {
  return request.getDecorator<AccountRecord>("account");
}

interface ApiParts {
  readonly failed: (error: unknown) => void;
  readonly routes: (api: FastifyInstance) => void;
}

export function createApiApp(service: Service, { failed, routes }: ApiParts): FastifyInstance {
  const date = () => new Date(service.clock.now()).toUTCString();
  const answer = (error: unknown, reply: FastifyReply): void => {
    const { status, body, headers } = answerTo(error, failed);
    void reply
      .code(status)
      .headers({ ...headers, date: date() })
      .send(body);
  };
  const app = Fastify({
    routerOptions: { ignoreTrailingSlash: true },
    return503OnClosing: false,
    // A path that Fastify cannot decode, such as %zz, does not exist and still counts as a call.
    frameworkErrors(_error, request, reply) {
      try {
        if (request.url.startsWith(`${apiRoot}/`)) letIn(service.limits, request);
        throw noSuchPath();
      } catch (error) {
        answer(error, reply);
      }
    },
  });
  addJsonBodies(app, "application/json", () =>
    invalid([{ path: [], message: "El cuerpo no es JSON válido." }]),
  );
  app.addHook("onRequest", (_request, reply, done) => {
    reply.header("date", date());
    done();
  });
  app.setErrorHandler((error, _request, reply) => answer(error, reply));
  const notFound = () => {
    throw noSuchPath();
  };
  app.setNotFoundHandler(notFound);
  app.register(
    async (api) => {
      addGate(api, service);
      api.setNotFoundHandler(notFound);
      routes(api);
    },
    { prefix: apiRoot },
  );
  return app;
}

/** Bodies of this content type are JSON; `faultOf` makes the answer to others. */
export function addJsonBodies(
  app: FastifyInstance,
  type: string,
  faultOf: (why: string) => ApiFault,
  bodyLimit?: number,
): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    type,
    { parseAs: "buffer", ...(bodyLimit && { bodyLimit }) },
    (_request, body, done) => {
      const read =
        body.length === 0 ? { value: undefined } : parseWithin(body as Buffer, bodyLimits);
      if ("value" in read) done(null, read.value);
      else done(faultOf(read.fault));
    },
  );
}

/**
 * Every request, unknown paths included, must bring a valid key and find room under its account's
 * limits. Only what was let in, and whose body could be read, meets a fault: it has been counted.
 * `shape` gives a fault its form.
 */
export function addGate(
  api: FastifyInstance,
  { limits, random, faults }: Service,
  shape = (fault: ApiFault): ApiFault => fault,
): void {
  api.decorateRequest("account", null);
  api.addHook("onRequest", (request, _reply, done) => {
    request.setDecorator("account", letIn(limits, request));
    done();
  });
  addApiFaults(api, () => faults.current.api, random.fork("api-faults"), shape);
}

function letIn(limits: Limits, request: FastifyRequest): AccountRecord {
  const account = limits.authenticate(request.headers.authorization, request.ip);
  const isSend = request.method === "POST" && sendPaths.includes(request.routeOptions.url);
  limits.admit(account, isSend ? "message" : "other");
  return account;
}

const providerText =
  "El proveedor rechazó el mensaje por un problema temporal. Probá de nuevo en unos minutos.";
const cutJson = '{"id":"019';

/** `faults` gives the same objects until they are set anew: `times` is counted by them. */
function addApiFaults(
  api: FastifyInstance,
  faults: () => readonly ApiFaultSettings[],
  random: Random,
  shape: (fault: ApiFault) => ApiFault,
): void {
  const struck = new WeakMap<ApiFaultSettings, number>();
  const spoilt = new WeakMap<FastifyRequest, ApiFaultSettings>();
  const hanging = new Set<FastifyReply["raw"]>();

  const pick = (request: FastifyRequest): ApiFaultSettings | undefined => {
    const fault = faults().find(
      (one) =>
        (struck.get(one) ?? 0) < (one.times ?? Number.POSITIVE_INFINITY) &&
        isFor(one, request) &&
        random.chance(one.share),
    );
    if (fault !== undefined) struck.set(fault, (struck.get(fault) ?? 0) + 1);
    return fault;
  };
  // Otherwise close() would wait for them forever.
  api.addHook("preClose", async () => {
    for (const raw of hanging) raw.destroy();
  });

  api.addHook("preHandler", (request, reply, done) => {
    const fault = pick(request);
    if (fault === undefined) {
      done();
    } else if (
      typeof fault.answer === "number" &&
      (fault.when === "before" || fault.answer === 429)
    ) {
      done(answerOf(fault, request));
    } else {
      spoilt.set(request, fault);
      if (fault.when === "after") done();
      else void reply.type(json).send();
    }
  });

  api.addHook("onSend", (request, reply, payload, done) => {
    const fault = spoilt.get(request);
    if (fault === undefined) {
      done(null, payload);
    } else if (fault.answer === "hang") {
      const { raw } = reply;
      hanging.add(raw);
      raw.once("close", () => hanging.delete(raw));
    } else if (fault.answer === "reset") {
      request.raw.socket.resetAndDestroy();
    } else if (fault.answer === "malformed") {
      done(null, typeof payload === "string" ? payload.slice(0, payload.length / 2) : cutJson);
    } else {
      const { status, body } = shape(answerOf(fault, request));
      reply.code(status).type(json);
      done(null, JSON.stringify(body));
    }
  });
}

function answerOf(
  { answer, error, retryAfter }: ApiFaultSettings,
  request: FastifyRequest,
): ApiFault {
  if (answer === 429)
    return capReached("requests", plans[callerOf(request).plan].requests, retryAfter);
  return answer === 502
    ? refused(502, error ?? providerText)
    : refused(500, error ?? unexpectedText);
}

function isFor(
  { endpoint }: ApiFaultSettings,
  { method, routeOptions: { url = "" } }: FastifyRequest,
): boolean {
  const path = url === graphMessages ? "/messages" : url.slice(apiRoot.length);
  return endpoint === undefined || endpointKey(endpoint) === endpointKey(`${method} ${path}`);
}
