import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import type { ApiFaultSettings } from "../faults.ts";
import type { Random } from "../ids.ts";
import { type Caller, capReached, type Limits } from "../limits/limits.ts";
import { type ApiFault, answerTo, invalid, limitsOf, noSuchPath, refused, unexpectedText } from "./fault.ts";

export const apiRoot = "/api/v1";

export const graphMessages = "/:version(^v[0-9]+[.][0-9]+$)/:phoneNumberId/messages";
const sendPaths: readonly unknown[] = [`${apiRoot}/messages`, graphMessages];

export function callerOf(request: FastifyRequest): Caller {
  const caller = request.getDecorator<Caller | null>("caller");
  if (caller === null) throw new Error("no caller: callerOf is for routes behind the gate");
  return caller;
}

interface ApiParts {
  readonly now: () => number;
  readonly limits: Limits;
  readonly random: Random;
  /** The same objects until they are set anew: `times` is counted by them. */
  readonly faults: () => readonly ApiFaultSettings[];
  readonly failed: (error: unknown) => void;
  readonly routes: (api: FastifyInstance) => void;
}

/** The service over HTTP: `routes` lie under `/api/v1`, behind the gate. What is added to the app itself is outside it. */
export function createApiApp({ now, limits, random, faults, failed, routes }: ApiParts): FastifyInstance {
  const app = Fastify({
    routerOptions: { ignoreTrailingSlash: true },
    return503OnClosing: false,
    // A path that Fastify cannot decode, such as %zz, does not exist and still counts as a call.
    frameworkErrors: (_error, request, reply) => {
      const { status, body, headers } = answerTo(framed(), failed);
      const text = JSON.stringify(body);
      reply.raw.writeHead(status, { ...headers, date: date(), "content-type": "application/json; charset=utf-8" }).end(text);
      function framed(): unknown {
        try {
          if (request.url.startsWith(`${apiRoot}/`)) letIn(limits, request);
          return noSuchPath();
        } catch (error) {
          return error;
        }
      }
    },
  });
  addJsonBodies(app);
  const date = () => new Date(now()).toUTCString();
  app.addHook("onRequest", (_request, reply, done) => {
    reply.header("date", date());
    done();
  });
  app.setErrorHandler((error, _request, reply) => {
    const { status, body, headers } = answerTo(error, failed);
    void reply.code(status).headers(headers).send(body);
  });
  app.setNotFoundHandler(() => {
    throw noSuchPath();
  });
  app.register(
    (api, _options, done) => {
      addGate(api, limits);
      addApiFaults(api, { faults, random });
      api.setNotFoundHandler(() => {
        throw noSuchPath();
      });
      routes(api);
      done();
    },
    { prefix: apiRoot },
  );
  return app;
}

/** "Bodies are JSON": anything else is a 400 in the shape of a validation error. */
function addJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => {
    if (body.length === 0) {
      done(null, undefined);
      return;
    }
    const read = parseWithin(body as Buffer, bodyLimits);
    if ("value" in read) done(null, read.value);
    else done(invalid([{ path: [], message: "El cuerpo no es JSON válido." }]));
  });
}

/** Every request, unknown paths included, must bring a valid key and find room under its account's limits. */
export function addGate(api: FastifyInstance, limits: Limits): void {
  api.decorateRequest("caller", null);
  api.addHook("onRequest", (request, _reply, done) => {
    const caller = letIn(limits, request);
    request.setDecorator("caller", caller);
    done();
  });
}

function letIn(limits: Limits, request: FastifyRequest): Caller {
  const caller = limits.authenticate(request.headers.authorization, request.ip);
  limits.admit(caller.account, isSend(request) ? "message" : "other");
  return caller;
}

function isSend(request: FastifyRequest): boolean {
  return request.method === "POST" && sendPaths.includes(request.routeOptions.url);
}

const providerText = "El proveedor rechazó el mensaje por un problema temporal. Probá de nuevo en unos minutos.";
const cutJson = '{"id":"019';

/** Only calls that the gate let in, and whose body could be read, meet a fault: they have been counted. */
export function addApiFaults(
  api: FastifyInstance,
  { faults, random }: { readonly faults: () => readonly ApiFaultSettings[]; readonly random: Random },
): void {
  const pick = createFaultPicker(random.fork("api-faults"));
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

type FaultPicker = (faults: readonly ApiFaultSettings[], method: string, route: string | undefined) => ApiFaultSettings | null;

/** The first fault for the endpoint that has some of its `times` left and is drawn by its `share`. */
function createFaultPicker(random: Random): FaultPicker {
  const struck = new WeakMap<ApiFaultSettings, number>();
  return (faults, method, route) => {
    for (const fault of faults) {
      const times = struck.get(fault) ?? 0;
      if (times >= (fault.times ?? Number.POSITIVE_INFINITY)) continue;
      if (fault.endpoint !== undefined && (route === undefined || !isEndpoint(fault.endpoint, method, route))) continue;
      if (!random.chance(fault.share)) continue;
      struck.set(fault, times + 1);
      return fault;
    }
    return null;
  };
}

/** `GET /messages/{id}`, as the document writes it, against Fastify's `/api/v1/messages/:id`. */
function isEndpoint(endpoint: string, method: string, route: string): boolean {
  return endpoint.replace(/\{[^/]*\}/g, ":") === `${method} ${route.slice(apiRoot.length).replace(/:[^/]*/g, ":")}`;
}
