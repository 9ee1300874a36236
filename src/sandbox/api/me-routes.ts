import type { FastifyInstance } from "fastify";
import type { World } from "../world/world.ts";
import { callerOf } from "./gate.ts";

/** `GET /me`: all its fields are the sandbox's choice. */
export function addMeRoutes(app: FastifyInstance, { world }: { readonly world: World }): void {
  app.get("/me", (request, reply) => {
    const { id, plan, contactLimit, isConnected, numbers, createdAt } = callerOf(request).account;
    return reply.send({
      name: id,
      plan,
      isConnected,
      numbers: numbers.map(({ phoneNumberId, phone, isConnected }) => ({ phoneNumberId, phone, isConnected })),
      contacts: { used: world.contacts.list(id).length, limit: contactLimit },
      createdAt: new Date(createdAt).toISOString(),
    });
  });
}
