import type { FastifyInstance } from "fastify";
import { bodyLimits, parseWithin } from "../../model/json.ts";
import { addAccountRoutes } from "./account-routes.ts";
import { addFlowRoutes } from "./flow-routes.ts";
import { addMessageRoutes } from "./message-routes.ts";
import { addMetaRoutes } from "./meta-routes.ts";
import type { ControlParts } from "./parts.ts";
import { addPeopleRoutes } from "./people-routes.ts";
import { answerOf, Refusal } from "./refusal.ts";
import { addTemplateRoutes } from "./template-routes.ts";
import { addWebhookRoutes } from "./webhook-routes.ts";
import { addWorldRoutes } from "./world-routes.ts";

/**
 * Adds every endpoint of docs/contributing/sandbox.md, "Control API". No key: every client that reaches the address may call.
 * `{error}` in English for what is wrong with the request; what the service itself would refuse is answered as it would.
 */
export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  void app.register(async (scope) => {
    scope.setErrorHandler((error, _request, reply) => {
      const answer = answerOf(error);
      if (answer !== null) return reply.code(answer.status).headers(answer.headers).send(answer.body);
      return reply.code(500).send({ error: `the sandbox failed: ${(error as Error).stack ?? String(error)}` });
    });
    // Always JSON, whatever the header says (curl -d says something else), and nothing at all where nothing is needed.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => {
      const read = body.length === 0 ? { value: undefined } : parseWithin(body as Buffer, bodyLimits);
      if ("value" in read) done(null, read.value);
      else done(new Refusal(400, `the body ${read.fault}`));
    });
    addWorldRoutes(scope, parts);
    addAccountRoutes(scope, parts);
    addWebhookRoutes(scope, parts);
    addPeopleRoutes(scope, parts);
    addTemplateRoutes(scope, parts);
    addMessageRoutes(scope, parts);
    addFlowRoutes(scope, parts);
    if (parts.meta !== null) addMetaRoutes(scope, { world: parts.world, meta: parts.meta });
  });
  // Of its own: what the service says of unknown paths is about its API.
  void app.register(
    async (scope) => {
      scope.setNotFoundHandler(({ method, url }, reply) => {
        const error = `there is no ${method} ${url.split("?")[0]}; docs/contributing/sandbox.md lists what there is`;
        return reply.code(404).send({ error });
      });
    },
    { prefix: "/sandbox" },
  );
}
