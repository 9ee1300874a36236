import type { FastifyInstance } from "fastify";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { invalid } from "./fault.ts";

/** "Bodies are JSON": anything else is a 400 in the shape of a validation error. No body at all is `undefined`. */
export function addJsonBodies(app: FastifyInstance): void {
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
