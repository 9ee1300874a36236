import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { contactPage } from "../messaging/contact-page.ts";
import { parsePhone } from "../messaging/phone.ts";
import type { Messaging } from "../messaging/port.ts";
import type { ContactRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { checked } from "./checked.ts";
import { callerOf } from "./gate.ts";

interface Parts {
  readonly world: World;
  readonly messaging: Pick<Messaging, "contactFor">;
}

const querySchema = z.object({
  limit: z
    .string("Tiene que venir una sola vez.")
    .regex(/^\d+$/, "Tiene que ser un número entero de 1 a 200.")
    .transform(Number)
    .pipe(z.number().min(1).max(200))
    .default(50),
  after: z.guid().toLowerCase().exactOptional(),
  phone: z.string().exactOptional(),
});

/** The names of the fields other than `phone` are the sandbox's choice, as is that attributes are texts. */
const bodySchema = z.object({
  phone: z.string(),
  name: z.string().exactOptional(),
  attributes: z.record(z.string(), z.string()).exactOptional(),
});

/** `GET /contacts` and `POST /contacts`. */
export function addContactsRoutes(app: FastifyInstance, { world, messaging }: Parts): void {
  app.get("/contacts", (request, reply) => {
    const { account } = callerOf(request);
    const { phone, ...place } = checked(querySchema, request.query);
    if (phone !== undefined) {
      // The other parameters have no say then: the sandbox's choice.
      const contact = world.contacts.find(account.id, parsePhone(phone) ?? "");
      return reply.send({ data: contact === undefined ? [] : [viewOf(contact)], next: null });
    }
    const { data, next } = contactPage(world.contacts.list(account.id), place);
    return reply.send({ data: data.map(viewOf), next });
  });
  app.post("/contacts", (request, reply) => {
    const { account } = callerOf(request);
    const { phone, ...facts } = checked(bodySchema, request.body);
    const { contactId, isNew } = messaging.contactFor(account.id, phone, facts);
    // 201 for a new one, 200 for one that was there: the sandbox's choice.
    return reply.code(isNew ? 201 : 200).send(viewOf(world.contacts.get(contactId) as ContactRecord));
  });
}

function viewOf({ id, phone, name, attributes, conversationId, createdAt }: ContactRecord): Record<string, unknown> {
  return { id, phone, name, attributes, conversationId, createdAt: new Date(createdAt).toISOString() };
}
