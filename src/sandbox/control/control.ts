import type { FastifyInstance } from "fastify";
import { addAccountRoutes, addWorldRoutes } from "./account-routes.ts";
import { addFlowRoutes, addMessageRoutes, addPeopleRoutes } from "./message-routes.ts";
import { type ControlParts, createRoutes } from "./routes.ts";

/** Every endpoint of docs/contributing/sandbox.md, "Control API". No key: every client that reaches the address may call. */
export function addControlRoutes(app: FastifyInstance, parts: ControlParts): void {
  void app.register(async (scope) => {
    const routes = createRoutes(scope, parts.world);
    const stopping = Promise.withResolvers<void>();
    scope.addHook("preClose", async () => stopping.resolve());
    addWorldRoutes(routes, parts);
    addAccountRoutes(routes, parts);
    addPeopleRoutes(routes, parts);
    addFlowRoutes(routes, parts);
    addMessageRoutes(routes, parts, stopping.promise);
  });
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
