import type { FastifyInstance } from "fastify";
import { outgoingBodySchema } from "../messaging/outgoing-body.ts";
import type { Messaging } from "../messaging/port.ts";
import { messageNotFound } from "../messaging/refusals.ts";
import type { MessageRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { checked } from "./checked.ts";
import { callerOf } from "./gate.ts";

interface Parts {
  readonly world: World;
  readonly messaging: Pick<Messaging, "send">;
  /** Awaited before a send is answered. Not given: nothing is. */
  readonly answerAfter?: ((message: MessageRecord) => Promise<void>) | undefined;
}

/** `POST /messages` and `GET /messages/{id}`. */
export function addMessagesRoutes(app: FastifyInstance, { world, messaging, answerAfter }: Parts): void {
  app.post("/messages", async (request, reply) => {
    const { account } = callerOf(request);
    const message = messaging.send(account.id, checked(outgoingBodySchema, request.body), "api");
    const { id, wamid, status, conversationId } = message;
    await answerAfter?.(message);
    return reply.code(201).send({ id, wamid, status, conversationId });
  });
  app.get<{ Params: { id: string } }>("/messages/:id", (request, reply) => {
    const { account } = callerOf(request);
    // An id that is no UUID names no message: 404 as well, the sandbox's choice.
    const message = world.messages.of(account.id, request.params.id.toLowerCase());
    if (message === undefined) throw messageNotFound();
    return reply.send(viewOf(message));
  });
}

/** The document names the first five fields; the others are the sandbox's choice. */
function viewOf(message: MessageRecord): Record<string, unknown> {
  const { id, wamid, status, conversationId, errorCode, contactId, phone, phoneNumberId, text, templateId, campaignId } = message;
  return {
    id,
    wamid,
    status,
    conversationId,
    ...(errorCode === undefined ? {} : { errorCode }),
    contactId,
    phone,
    phoneNumberId,
    text,
    templateId,
    campaignId,
    createdAt: new Date(message.createdAt).toISOString(),
    statusAt: new Date(message.statusAt).toISOString(),
  };
}
