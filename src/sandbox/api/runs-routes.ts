import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { Automations } from "../automations/port.ts";
import type { World } from "../world/world.ts";
import { checked } from "./checked.ts";
import { refused } from "./fault.ts";
import { callerOf } from "./gate.ts";

/** Which fields are required is the sandbox's choice: `phone` alone. Others than these are ignored. */
const body = z.object({
  phone: z.string(),
  name: z.string().min(1).max(200).optional(),
  data: z.record(z.string(), z.string()).default({}),
});

/** `POST /automations/{id}/runs` (messaging-service-api.md, "POST /automations/{id}/runs"). */
export function addRunsRoutes(app: FastifyInstance, { world, automations }: { world: World; automations: Automations }): void {
  app.post<{ Params: { id: string } }>("/automations/:id/runs", (request, reply) => {
    const { account } = callerOf(request);
    const { phone, name, data } = checked(body, request.body);
    const automation = world.automations.of(account.id, request.params.id.toLowerCase());
    if (automation === undefined) throw refused(404, "No existe esa automatización en tu cuenta.");
    // It is there, but cannot be started so: 409 as for a paused one, and the sandbox's choice.
    if (automation.trigger !== "manual") throw refused(409, "La automatización no tiene el disparador de inicio manual.");
    const run = automations.start(account.id, automation, { phone, data, ...(name === undefined ? {} : { name }) });
    reply.code(201).send({ runId: run.id });
  });
}
