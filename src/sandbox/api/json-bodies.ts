import type { FastifyInstance } from "fastify";
import { invalid } from "./fault.ts";

/** "Bodies are JSON": anything else is a 400 in the shape of a validation error. No body at all is `undefined`. */
export function addJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_request, body, done) => {
    if (body === "") {
      done(null, undefined);
      return;
    }
    try {
      done(null, JSON.parse(body as string));
    } catch {
      done(invalid([{ path: [], message: "El cuerpo no es JSON válido." }]));
    }
  });
}
