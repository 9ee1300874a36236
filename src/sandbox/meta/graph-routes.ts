import type { FastifyInstance } from "fastify";
import { addApiFaults } from "../api/api-faults.ts";
import { addGate, callerOf, graphMessages } from "../api/gate.ts";
import type { ApiFaultSettings } from "../faults.ts";
import type { Limits } from "../limits/limits.ts";
import { parsePhone } from "../messaging/phone.ts";
import type { Messaging } from "../messaging/port.ts";
import { approvedTemplates } from "../messaging/templates.ts";
import type { Random } from "../random.ts";
import type { MessageRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { type GraphSend, graphBodySchema, templateOf } from "./graph-body.ts";
import { GraphFault, graphErrorBody, graphFaultOf } from "./graph-errors.ts";
import { userIdOf, waIdOf } from "./update.ts";

interface Parts {
  readonly world: World;
  readonly limits: Limits;
  readonly random: Random;
  readonly faults: () => readonly ApiFaultSettings[];
  readonly messaging: Pick<Messaging, "send">;
  readonly answerAfter: (message: MessageRecord) => Promise<void>;
}

/** Adds Meta's endpoint for sends, with the keys, caps and faults of the service's own. */
export function addGraphRoutes(app: FastifyInstance, { world, limits, random, faults, messaging, answerAfter }: Parts): void {
  const send = (account: string, phoneNumberId: string, body: GraphSend): MessageRecord => {
    const to = body.recipient === undefined ? parsePhone(`+${waIdOf(body.to ?? "")}`) : phoneOf(world, account, body.recipient);
    if (to === null) throw new GraphFault(400, 131009, "Parameter value is not valid", "the recipient is not valid");
    const { text, template, biz_opaque_callback_data: reference } = body;
    const content = {
      ...(text === undefined ? {} : { text: text.body }),
      ...(template === undefined ? {} : { template: findTemplate(world, account, template) }),
    };
    const order = { to, phoneNumberId, failsLater: true, ...(reference === undefined ? {} : { reference }), ...content };
    return messaging.send(account, order, "api");
  };
  void app.register(async (scope) => {
    addGate(scope, limits);
    addApiFaults(scope, { faults, random: random.fork("graph") });
    scope.setErrorHandler((error, _request, reply) => {
      const fault = graphFaultOf(error);
      if (fault === null) throw error;
      return reply.code(fault.status).send(graphErrorBody(fault));
    });
    scope.post<{ Params: { phoneNumberId: string } }>(graphMessages, async (request, reply) => {
      const { account } = callerOf(request);
      const { phoneNumberId } = request.params;
      if (!account.numbers.some((number) => number.phoneNumberId === phoneNumberId)) {
        throw new GraphFault(400, 100, `Unsupported post request. Object with ID '${phoneNumberId}' does not exist`);
      }
      const read = graphBodySchema.safeParse(request.body);
      if (!read.success) throw new GraphFault(400, 100, "Invalid parameter", read.error.issues.map(({ message }) => message).join("; "));
      if (read.data.status === "read") return { success: true };
      const message = send(account.id, phoneNumberId, read.data);
      await answerAfter(message);
      const { to, recipient, template } = read.data;
      const who = recipient === undefined ? { input: to, wa_id: waIdOf(message.phone) } : { input: recipient, user_id: recipient };
      const sent = { id: message.wamid, ...(template === undefined ? {} : { message_status: "accepted" }) };
      return reply.send({ messaging_product: "whatsapp", contacts: [who], messages: [sent] });
    });
  });
}

/** The phone of the contact with this business-scoped id. */
function phoneOf(world: World, account: string, userId: string): string | null {
  return world.contacts.list(account).find(({ phone }) => userIdOf(phone) === userId)?.phone ?? null;
}

function findTemplate(world: World, account: string, wanted: NonNullable<GraphSend["template"]>) {
  const found = approvedTemplates(world, account).find(
    ({ metaName, language }) => metaName === wanted.name && language === wanted.language.code,
  );
  if (found === undefined) throw new GraphFault(404, 132001, "Template name does not exist in the translation");
  return templateOf(wanted, found);
}
