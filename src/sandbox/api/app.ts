import Fastify, { type FastifyInstance } from "fastify";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import type { ApiFaultSettings } from "../faults.ts";
import type { Random } from "../ids.ts";
import type { Limits } from "../limits/limits.ts";
import { answerTo, invalid, noSuchPath } from "./fault.ts";
import { addApiFaults, addGate, apiRoot, letIn } from "./gate.ts";

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
