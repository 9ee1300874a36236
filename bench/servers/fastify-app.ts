import { type FastifyInstance, fastify } from "fastify";
import { path, signatureHeader } from "../events.ts";
import { isSigned } from "./verify.ts";

/**
 * Fastify with the body as the bytes received and the signature checked; `store` ends before the
 * answer goes out.
 */
export function buildApp(store: (body: Buffer) => Promise<void> | void): FastifyInstance {
  const app = fastify({ logger: false });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  app.post(path, async (request, reply) => {
    const body = request.body as Buffer;
    if (!isSigned(body, request.headers[signatureHeader]))
      return reply.code(401).send({ error: "bad signature" });
    await store(body);
    return { status: "accepted" };
  });
  return app;
}
